// Calls of real clients for Node: `node node_clients.mjs CLIENT URL KEY` prints JSON, as python_clients.py does.
// It runs where the packages are installed.

const TEXTS = ["Where are my keys?", "The small cat is sleeping."];

const CLIENTS = {
  async deepl(url, key) {
    const deepl = await import("deepl-node");
    const client = new deepl.Translator(key, { serverUrl: url });
    const glossary = new deepl.GlossaryEntries({ entries: { keys: "clefs" } });
    return {
      list: async () => (await client.translateText(TEXTS, "en", "fr")).map((each) => each.text),
      xml: async () =>
        (await client.translateText('See <x id="7"></x> now', "en", "fr", { tagHandling: "xml", ignoreTags: ["x"] }))
          .text,
      targets: async () => (await client.getTargetLanguages()).map((each) => each.code),
      usage: async () => (await client.getUsage()).character.count > 0,
      "with glossary": async () => {
        const made = await client.createGlossary("mine", "en", "fr", glossary);
        const result = await client.translateText(TEXTS[0], "en", "fr", { glossary: made });
        await client.deleteGlossary(made);
        return result.text;
      },
      "wrong key": async () => new deepl.Translator("wrong", { serverUrl: url }).getUsage(),
    };
  },
  async openai(url, key) {
    const { default: OpenAI } = await import("openai");
    const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: key });
    const ask = { model: "lm", max_tokens: 6, temperature: 0, messages: [{ role: "user", content: "The" }] };
    return {
      models: async () => (await client.models.list()).data.map((each) => each.id),
      chat: async () => (await client.chat.completions.create(ask)).choices[0].message.content,
      stream: async () => {
        let text = "";
        for await (const event of await client.chat.completions.create({ ...ask, stream: true })) {
          text += event.choices[0]?.delta?.content ?? "";
        }
        return text;
      },
      base64: async () => (await client.embeddings.create({ model: "mood", input: TEXTS[0] })).data[0].embedding,
      "unknown model": async () => client.models.retrieve("none"),
    };
  },
  async libretranslate(url, key) {
    const { translate } = (await import("libretranslate")).default;
    const ask = { query: TEXTS[0], source: "en", target: "fr", apiurl: url, apiKey: key };
    return { translate: async () => translate(ask) };
  },
};

const [client, url, key] = process.argv.slice(2);
const results = {};
for (const [name, run] of Object.entries(await CLIENTS[client](url, key))) {
  try {
    results[name] = await run();
  } catch (error) {
    results[name] = `raised ${error.constructor.name}`;
  }
}
console.log(JSON.stringify(results));
