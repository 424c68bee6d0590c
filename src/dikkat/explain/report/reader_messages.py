"""Messages of the report of a classifier or a language model, beside those that all reports share."""

from __future__ import annotations

from dataclasses import dataclass

from dikkat_runtime.errors import UsageError


@dataclass(frozen=True, slots=True)
class ReaderMessages:
    """Hold the messages in one language; names in braces are filled in."""

    classifier: str
    language_model: str
    accuracy: str
    subset_accuracy: str
    micro_f1: str
    macro_f1: str
    perplexity: str
    bits: str
    loss_text: str
    loss_token: str
    tokens_a_second: str
    rate_texts: str
    rate_tokens: str
    loss_curve: str
    score_curve: str
    on_test_part: str
    on_validation_part: str
    on_held_out: str
    texts_read: str
    train_texts: str
    validation_texts: str
    test_texts: str
    class_texts: str
    other_labels: str
    seen: str
    unknown: str
    cut: str
    documents: str
    characters: str
    tokens: str
    repeated: str
    lengths: str
    training: str
    worst: str
    no_mistake: str
    worst_texts: str
    worst_passages: str
    text: str
    before: str
    passage: str
    surprise: str
    attention_note: str
    layers: str
    width: str
    heads: str
    positions: str
    vocabulary: str
    pooling: str
    objective: str
    context: str
    no_label: str
    others: str


ENGLISH = ReaderMessages(
    classifier="Classifier: {labels}",
    language_model="Language model ({objective})",
    accuracy="accuracy, %",
    subset_accuracy="texts with exactly their labels, %",
    micro_f1="micro F1, %",
    macro_f1="macro F1, %",
    perplexity="perplexity a token",
    bits="bits a byte",
    loss_text="validation loss, nats a text",
    loss_token="validation loss, nats a token",
    tokens_a_second="tokens a second",
    rate_texts="{passes} passes over the data, {count} texts read in {minutes} minutes.",
    rate_tokens="{passes} passes over the data, {count} tokens predicted in {minutes} minutes.",
    loss_curve="Loss, nats",
    score_curve="Validation scores",
    on_test_part="On the test part, {count} texts that training never looked at:",
    on_validation_part="On the validation part, {count} texts by which the weights were chosen:",
    on_held_out="On the text that was held out, by which the weights were chosen:",
    texts_read="texts read",
    train_texts="texts to train on",
    validation_texts="texts to validate on",
    test_texts="texts to test on",
    class_texts="training texts of {label}",
    other_labels="training texts that came before with another label",
    seen="of {count} held-out texts stand in training too",
    unknown="unknown tokens in training",
    cut="training texts of which only beginning and end are read ({most} tokens)",
    documents="documents",
    characters="characters: {part}",
    tokens="tokens: {part}",
    repeated="of {count} held-out runs of {size} tokens stand in training too",
    lengths="Lengths of what is trained on",
    training="training",
    worst="Worst mistakes",
    no_mistake="There is none.",
    worst_texts="The held-out texts of which the model was most sure, and wrong. Look for wrong labels first.",
    worst_passages="The held-out passages that surprised the model most. Look for names, numbers, rare words, noise.",
    text="text",
    before="before it",
    passage="passage",
    surprise="{loss:.2f} nats a token",
    attention_note="Where each word (down) looks (across): mean of the heads of the last layer.",
    layers="layers",
    width="width",
    heads="attention heads",
    positions="positions",
    vocabulary="vocabulary",
    pooling="pooling",
    objective="objective",
    context="context, tokens",
    no_label="(no label)",
    others="training texts of {count} other classes",
)

TURKISH = ReaderMessages(
    classifier="Sınıflandırıcı: {labels}",
    language_model="Dil modeli ({objective})",
    accuracy="doğruluk, %",
    subset_accuracy="etiketleri tam olan metinler, %",
    micro_f1="mikro F1, %",
    macro_f1="makro F1, %",
    perplexity="belirteç başına şaşkınlık",
    bits="bayt başına bit",
    loss_text="doğrulama kaybı, metin başına nat",
    loss_token="doğrulama kaybı, belirteç başına nat",
    tokens_a_second="saniyede belirteç",
    rate_texts="Veri {passes} kez geçildi; {minutes} dakikada {count} metin okundu.",
    rate_tokens="Veri {passes} kez geçildi; {minutes} dakikada {count} belirteç tahmin edildi.",
    loss_curve="Kayıp, nat",
    score_curve="Doğrulama puanları",
    on_test_part="Sınama bölümünde, eğitimin hiç görmediği {count} metinde:",
    on_validation_part="Doğrulama bölümünde, ağırlıkların seçildiği {count} metinde:",
    on_held_out="Ayrılmış, ağırlıkların seçildiği metinde:",
    texts_read="okunan metin",
    train_texts="eğitim metni",
    validation_texts="doğrulama metni",
    test_texts="sınama metni",
    class_texts="eğitim metni: {label}",
    other_labels="daha önce başka etiketle geçmiş eğitim metni",
    seen="ayrılmış {count} metinden eğitimde de geçen",
    unknown="eğitimde bilinmeyen belirteç",
    cut="yalnız başı ve sonu okunan eğitim metni ({most} belirteç)",
    documents="belge",
    characters="karakter: {part}",
    tokens="belirteç: {part}",
    repeated="ayrılmış {size} belirteçlik {count} parçadan eğitimde de geçen",
    lengths="Eğitim verisinin uzunlukları",
    training="eğitim",
    worst="En kötü yanlışlar",
    no_mistake="Hiç yok.",
    worst_texts="Modelin en emin olduğu, ama yanıldığı ayrılmış metinler. Önce yanlış etiketlere bakın.",
    worst_passages="Modeli en çok şaşırtan ayrılmış parçalar. Adlara, sayılara, seyrek sözcüklere, gürültüye bakın.",
    text="metin",
    before="öncesi",
    passage="parça",
    surprise="belirteç başına {loss:.2f} nat",
    attention_note="Her sözcüğün (aşağı doğru) baktığı yer (yana doğru): son katmanın kafalarının ortalaması.",
    layers="katman",
    width="genişlik",
    heads="dikkat kafası",
    positions="konumlar",
    vocabulary="sözcük dağarcığı",
    pooling="havuzlama",
    objective="amaç",
    context="bağlam, belirteç",
    no_label="(etiket yok)",
    others="öteki {count} sınıfın eğitim metinleri",
)

_WORDINGS = {"en": ENGLISH, "tr": TURKISH}


def reader_messages(language: str) -> ReaderMessages:
    """Return the messages in English (`en`) or Turkish (`tr`). Raises `UsageError` for another language."""
    if language not in _WORDINGS:
        raise UsageError(f'there is no report in "{language}"; choose from {", ".join(_WORDINGS)}')
    return _WORDINGS[language]
