// Translate each argument, and say which source word the last layer looked at most for each word that it wrote.
//
// With the folder that `dikkat export RUN --to web --out module` writes beside this file, and `npm install typescript @types/node`:
//   npx tsc --strict --target es2022 --module nodenext translate.ts && node translate.js "The small cat is sleeping."
import { Translator, type AttentionMap, type Translation } from "./module/dikkat.js";

/** The key that query `query` weighs most, in the mean of all heads. */
function mostLookedAt({ shape: [heads, queries, keys], values }: AttentionMap, query: number): number {
  const means = Array.from({ length: keys }, (_, key) =>
    Array.from({ length: heads }, (_, head) => values[(head * queries + query) * keys + key] ?? 0).reduce((a, b) => a + b) / heads);
  return means.indexOf(Math.max(...means));
}

const model: Translator = await Translator.load(new URL("./module/model.dikkat", import.meta.url));
for (const text of process.argv.slice(2)) {
  const { text: written, score, finished }: Translation = model.translate(text, { beamSize: 5 });
  console.log(`${written}\t${score.toFixed(2)}${finished ? "" : "\tunfinished"}`);
  const { sourceTokens, targetTokens, cross } = model.attend(text, written);
  const last = cross.at(-1);
  if (last) targetTokens.slice(1).forEach((token, query) => console.log(`  ${token} ← ${sourceTokens[mostLookedAt(last, query)]}`));
}
