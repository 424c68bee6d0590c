// Translate sentences with an exported folder, by transformers.js as it is.
import { basename, dirname } from "node:path";
import { env, pipeline } from "@huggingface/transformers";

const { folder, sentences, max_new_tokens } = JSON.parse(process.argv[2]);
env.allowRemoteModels = false;
env.localModelPath = `${dirname(folder)}/`;
const translator = await pipeline("translation", basename(folder));
const rows = [];
for (const sentence of sentences) {
  const inputs = await translator.tokenizer(sentence);
  const { sequences, cross_attentions } = await translator.model.generate({
    ...inputs,
    max_new_tokens,
    return_dict_in_generate: true,
    output_attentions: true,
  });
  const ids = sequences.tolist()[0].map(Number);
  // one tensor (batch, heads, 1, source) a step and layer
  const sums = cross_attentions.flat().map((weights) => weights.data.reduce((sum, weight) => sum + weight, 0));
  rows.push({ source: inputs.input_ids.tolist()[0].map(Number), ids, steps: cross_attentions.length, sums });
}
const batch = await translator(sentences, { max_new_tokens });
console.log(JSON.stringify({ rows, texts: batch.map((one) => one.translation_text) }));
