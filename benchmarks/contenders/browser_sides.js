// What every side does in the page of browser_speed.py: load once, then translate texts one after another, greedily.
// A side is {translate(texts) -> translations}; where it can, Bergamot also gets all texts in one call.

const bytesOf = async (url) => (await fetch(url)).arrayBuffer();

async function dikkat(folder, simd) {
  const { Translator } = await import(`/${folder}/dikkat.js`);
  const model = await Translator.load(`/${folder}/model.dikkat`, { simd });
  return { name: model.engine, translate: async (texts) => texts.map((text) => model.translate(text).text) };
}

// The tokenizer is dikkat's own, so that only the arithmetic differs.
async function onnx(folder, module) {
  const ort = await import("/node_modules/onnxruntime-web/dist/ort.wasm.min.mjs");
  Object.assign(ort.env.wasm, { numThreads: 1, wasmPaths: "/node_modules/onnxruntime-web/dist/" });
  const options = { executionProviders: ["wasm"], graphOptimizationLevel: "all" };
  const [encoder, decoder] = await Promise.all(["encoder_model", "decoder_model_merged"].map((name) =>
    ort.InferenceSession.create(`/${folder}/onnx/${name}.onnx`, options)));
  const { Translator } = await import(`/${module}/dikkat.js`);
  const { model } = await Translator.load(`/${module}/model.dikkat`);
  const [BOS, EOS] = [1, 2];
  const { num_heads: heads, model_dim: width } = model.settings;
  const ids = (numbers) => new ort.Tensor("int64", BigInt64Array.from(numbers, BigInt), [1, numbers.length]);
  const kept = decoder.inputNames.filter((name) => name.startsWith("past_key_values"));
  const fetched = ["logits", ...kept.map((name) => name.replace("past_key_values", "present"))];
  const translate = async (text) => {
    const source = [...model.sourceTokenizer.encode(text.trim()), EOS];
    const mask = ids(source.map(() => 1));
    const { last_hidden_state } = await encoder.run({ input_ids: ids(source), attention_mask: mask });
    const feeds = { encoder_hidden_states: last_hidden_state, encoder_attention_mask: mask };
    for (const name of kept) feeds[name] = new ort.Tensor("float32", new Float32Array(0), [1, heads, 0, width / heads]);
    const written = [];
    for (let token = BOS; written.length < 2 * source.length + 10; ) {
      const outputs = await decoder.run({ ...feeds, input_ids: ids([token]) }, fetched);
      const logits = outputs.logits.data;
      token = 2;
      for (let id = 2; id < logits.length; id++) if (logits[id] > logits[token]) token = id;
      if (token === EOS) break;
      written.push(token);
      for (const name of kept) feeds[name] = outputs[name.replace("past_key_values", "present")];
    }
    return model.targetTokenizer.decode(written);
  };
  return {
    name: `onnxruntime-web ${ort.env.versions.web}`,
    translate: async (texts) => {
      const translations = [];
      for (const text of texts) translations.push(await translate(text));
      return translations;
    },
  };
}

async function bergamot(folder, inOneCall) {
  const worker = new Worker("/node_modules/@browsermt/bergamot-translator/worker/translator-worker.js");
  let id = 0;
  const waiting = new Map();
  worker.onmessage = ({ data }) => {
    const { resolve, reject } = waiting.get(data.id);
    waiting.delete(data.id);
    if (data.error) reject(new Error(data.error.message));
    else resolve(data.result);
  };
  worker.onerror = ({ message }) => waiting.forEach(({ reject }) => reject(new Error(message)));
  const call = (name, ...args) => new Promise((resolve, reject) => {
    waiting.set(++id, { resolve, reject });
    worker.postMessage({ id, name, args });
  });
  await call("initialize", { cacheSize: 0 });
  const [model, vocabulary] = await Promise.all([bytesOf(`/${folder}/model.bin`), bytesOf(`/${folder}/vocab.spm`)]);
  const pair = { from: "en", to: "fr" };
  const config = { "gemm-precision": "int8shiftAll", "ssplit-mode": "sentence" };
  await call("loadTranslationModel", pair, { model, vocabs: [vocabulary], shortlist: new ArrayBuffer(0), config });
  const translated = async (texts) => {
    const answers = await call("translate", { models: [pair], texts: texts.map((text) => ({ text, html: false, qualityScores: false })) });
    return answers.map(({ target }) => target.text);
  };
  const oneByOne = async (texts) => {
    const translations = [];
    for (const text of texts) translations.push(...(await translated([text])));
    return translations;
  };
  return { name: "Bergamot 0.4.9", translate: inOneCall ? translated : oneByOne };
}

const SIDES = { dikkat, onnx, bergamot };
const loaded = new Map();

globalThis.load = async (key, [side, ...options]) => {
  const before = performance.now();
  loaded.set(key, await SIDES[side](...options));
  return { name: loaded.get(key).name, milliseconds: performance.now() - before };
};

globalThis.measure = async (key, texts) => {
  const before = performance.now();
  const translations = await loaded.get(key).translate(texts);
  return { translations, milliseconds: performance.now() - before };
};
