// Every word of the page, in English and Turkish. {name} is filled in by say().

const STRINGS = {
  en: {
    skip: "Skip to the text", languageButton: "Türkçe", languageLabel: "Sayfayı Türkçe göster",
    theme: "Light or dark", light: "Light", dark: "Dark", system: "Auto",
    help: "Keys and hints", close: "Close", tabs: "What to do",
    translate: "Translate", documents: "Documents", classify: "Classify", write: "Write", compare: "Compare",
    from: "From", to: "Into", model: "Model", detect: "Detect language", detected: "{language}, detected", swap: "Swap the languages",
    source: "Text to translate", sourceHint: "Type or paste a text", target: "Translation", targetHint: "The translation appears while you type",
    clear: "Clear", copy: "Copy", copied: "Copied", characters: "{count} of {most}", tooLong: "Too long: {count} of {most} characters",
    took: "{time} ms", sentence: "Sentence: {text}",
    glossary: "Glossary", glossaryHint: "One term a line: term = translation", glossaryCount: "{count} terms",
    details: "This sentence", alternatives: "Other translations", noAlternatives: "There is no other translation.", use: "Use “{text}”",
    confidence: "Mark low confidence", sure: "confidence {percent} %", flagLoop: "repeats itself", flagEmpty: "empty", flagUnfinished: "not finished", flagNumber: "a number is missing", flagNegation: "a negation is missing", unplaced: "term not placed: {term}",
    own: "Your own translation: it is completed while you type", goOn: "Go on with “{text}”", useOwn: "Use this translation", keep: "Save this correction", kept: "Saved: it is used from now on",
    attention: "Attention", attentionHint: "Where the model looked while it wrote each word. Point at a word, or reach it with the arrow keys.",
    noAttention: "This model does not tell its attention here.", links: "Links", heat: "Heat map", view: "View", unit: "Unit", words: "Words", subwords: "Subwords",
    heads: "Heads of each layer, their mean first", headOf: "Layer {layer}, head {head}", meanOf: "Layer {layer}, mean of its heads",
    heatLabel: "Heat map, {title}: {targets} rows of the translation, {sources} columns of the source",
    looksAt: "“{word}” looks at", lookedAtBy: "“{word}” is looked at by", nothing: "nothing much", sourceSide: "Source", targetSide: "Translation", weight: "weight",
    emptyAttention: "Write a sentence to see its attention.", longAttention: "This sentence is too long to be drawn.",
    chooseFile: "Choose a file", dropFile: "or drop it here", fileKinds: "Kinds: {kinds}; up to {most} MB", fileState: "{name}: {state}",
    queued: "waiting", translating: "{translated} of {segments} sentences", reading: "reading", done: "done", failed: "not translated: {problem}",
    download: "Download", cancel: "Cancel", remove: "Remove", removed: "Removed", wrongKind: "{name}: this kind of file is not translated here",
    tooLarge: "{name}: larger than {most} MB", files: "Files", formats: "Their layout, tags and placeholders stay.",
    classifyText: "Text to classify", classifyHint: "The classes appear while you type", classes: "Classes", noWords: "The text has no words.",
    prompt: "Beginning of the text", promptHint: "How does it begin?", written: "What the model writes", most: "Tokens at most", temperature: "Temperature", topP: "Top p", seed: "Seed",
    seedHint: "any", start: "Write on", stop: "Stop", writing: "writing…", tokensWritten: "{count} tokens",
    texts: "Texts, one a line", textsHint: "One text a line, at least two", similarity: "Similarity of the texts", cosine: "cosine of their vectors", oneMore: "Write at least two lines.",
    mostAlike: "Most alike: “{one}” and “{two}”, {value}",
    key: "API key", keyNeeded: "This server asks for an API key.", useKey: "Use this key", unreachable: "The server does not answer. It is asked again.",
    again: "The server is busy; asked again in {seconds} s.", nothingServed: "No model is served.",
    keyEnter: "translate at once, write on", keyTabs: "other tab", keySentences: "other sentence of the translation", keyWords: "other word of the attention", keyTab: "take what the model goes on with", keyEscape: "close this",
    privacy: "Texts go to this server and nowhere else; it keeps none of them but corrections that you save.",
  },
  tr: {
    skip: "Metne geç", languageButton: "English", languageLabel: "Show the page in English",
    theme: "Açık ya da koyu", light: "Açık", dark: "Koyu", system: "Otomatik",
    help: "Tuşlar ve ipuçları", close: "Kapat", tabs: "Ne yapılacak",
    translate: "Çeviri", documents: "Belgeler", classify: "Sınıflandırma", write: "Yazma", compare: "Karşılaştırma",
    from: "Kaynak dil", to: "Hedef dil", model: "Model", detect: "Dili algıla", detected: "{language} (algılandı)", swap: "Dilleri değiştir",
    source: "Çevrilecek metin", sourceHint: "Bir metin yazın ya da yapıştırın", target: "Çeviri", targetHint: "Çeviri siz yazarken belirir",
    clear: "Temizle", copy: "Kopyala", copied: "Kopyalandı", characters: "{count} / {most}", tooLong: "Çok uzun: {count} / {most} karakter",
    took: "{time} ms", sentence: "Cümle: {text}",
    glossary: "Sözlükçe", glossaryHint: "Her satıra bir terim: terim = çevirisi", glossaryCount: "{count} terim",
    details: "Bu cümle", alternatives: "Diğer çeviriler", noAlternatives: "Başka çeviri yok.", use: "“{text}” çevirisini kullan",
    confidence: "Güveni düşük olanı işaretle", sure: "güven: % {percent}", flagLoop: "kendini yineliyor", flagEmpty: "boş", flagUnfinished: "bitmemiş", flagNumber: "bir sayı eksik", flagNegation: "bir olumsuzluk eksik", unplaced: "konamayan terim: {term}",
    own: "Sizin çeviriniz: siz yazarken tamamlanır", goOn: "“{text}” diye sürdür", useOwn: "Bu çeviriyi kullan", keep: "Bu düzeltmeyi kaydet", kept: "Kaydedildi: bundan sonra kullanılır",
    attention: "Dikkat", attentionHint: "Model her sözcüğü yazarken nereye baktı? Bir sözcüğün üzerine gelin ya da ok tuşlarıyla ulaşın.",
    noAttention: "Bu model burada dikkatini göstermiyor.", links: "Bağlar", heat: "Isı haritası", view: "Görünüm", unit: "Birim", words: "Sözcükler", subwords: "Alt sözcükler",
    heads: "Her katmanın kafaları, önce ortalamaları", headOf: "Katman {layer}, kafa {head}", meanOf: "Katman {layer}, kafaların ortalaması",
    heatLabel: "Isı haritası, {title}: çeviriden {targets} satır, kaynaktan {sources} sütun",
    looksAt: "“{word}” şuraya bakıyor:", lookedAtBy: "“{word}” sözcüğüne bakanlar:", nothing: "belirgin bir şey yok", sourceSide: "Kaynak", targetSide: "Çeviri", weight: "ağırlık",
    emptyAttention: "Dikkati görmek için bir cümle yazın.", longAttention: "Bu cümle çizilemeyecek kadar uzun.",
    chooseFile: "Dosya seç", dropFile: "ya da buraya bırakın", fileKinds: "Türler: {kinds}; en çok {most} MB", fileState: "{name}: {state}",
    queued: "bekliyor", translating: "{segments} cümleden {translated} çevrildi", reading: "okunuyor", done: "hazır", failed: "çevrilemedi: {problem}",
    download: "İndir", cancel: "Vazgeç", remove: "Kaldır", removed: "Kaldırıldı", wrongKind: "{name}: bu tür dosyalar burada çevrilmiyor",
    tooLarge: "{name}: {most} MB’tan büyük", files: "Dosyalar", formats: "Düzenleri, etiketleri ve yer tutucuları korunur.",
    classifyText: "Sınıflandırılacak metin", classifyHint: "Sınıflar siz yazarken belirir", classes: "Sınıflar", noWords: "Metinde sözcük yok.",
    prompt: "Metnin başı", promptHint: "Nasıl başlıyor?", written: "Modelin yazdığı", most: "En çok belirteç", temperature: "Sıcaklık", topP: "Top p", seed: "Tohum",
    seedHint: "rastgele", start: "Devam et", stop: "Dur", writing: "yazıyor…", tokensWritten: "{count} belirteç",
    texts: "Metinler, her satıra bir tane", textsHint: "Her satıra bir metin, en az iki satır", similarity: "Metinlerin benzerliği", cosine: "vektörlerinin kosinüsü", oneMore: "En az iki satır yazın.",
    mostAlike: "En benzer: “{one}” ile “{two}”, {value}",
    key: "API anahtarı", keyNeeded: "Bu sunucu bir API anahtarı istiyor.", useKey: "Bu anahtarı kullan", unreachable: "Sunucu yanıt vermiyor. Yeniden denenecek.",
    again: "Sunucu meşgul; {seconds} sn sonra yeniden denenecek.", nothingServed: "Sunulan bir model yok.",
    keyEnter: "hemen çevir, yazmaya devam et", keyTabs: "diğer sekme", keySentences: "çevirinin diğer cümlesi", keyWords: "dikkatin diğer sözcüğü", keyTab: "modelin önerdiği devamı al", keyEscape: "bunu kapat",
    privacy: "Metinler yalnızca bu sunucuya gider; kaydettiğiniz düzeltmeler dışında hiçbiri saklanmaz.",
  },
};

let language = document.documentElement.lang === "tr" ? "tr" : "en";

export function say(name, values = {}) {
  return STRINGS[language][name].replace(/\{(\w+)\}/g, (_, key) => String(values[key]));
}

export function pageLanguage() {
  return language;
}

export function speak(code) {
  language = code === "tr" ? "tr" : "en";
  document.documentElement.lang = language;
}

export function number(value, digits = 0) {
  return value.toLocaleString(language, { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

// The name of a language in the language of the page; browsers know more of them than we do.
export function languageName(code) {
  try {
    const name = new Intl.DisplayNames([language], { type: "language" }).of(code);
    return name[0].toLocaleUpperCase(language) + name.slice(1);
  } catch {
    return code;
  }
}
