// Classify texts, or write prompts on, with exported folders, by the pipelines of transformers.js as they are.
import { basename, dirname } from "node:path";
import { env, pipeline } from "@huggingface/transformers";

const jobs = JSON.parse(process.argv[2]);
env.allowRemoteModels = false;
const answers = [];
for (const { task, folder, texts, options } of jobs) {
  env.localModelPath = `${dirname(folder)}/`;
  const answer = await pipeline(task, basename(folder));
  const rows = [];
  for (const text of texts) {
    const inputs = await answer.tokenizer(text);
    rows.push({ ids: inputs.input_ids.tolist()[0].map(Number), answer: await answer(text, options) });
  }
  answers.push({ rows, together: await answer(texts, options) });
}
console.log(JSON.stringify(answers));
