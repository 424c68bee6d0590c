"""Messages of a report in English and in Turkish."""

from __future__ import annotations

from dataclasses import dataclass

from dikkat_runtime.errors import UsageError


@dataclass(frozen=True, slots=True)
class ReportMessages:
    """Hold every text of a report; names in braces are filled in."""

    title: str
    loss: str
    minutes: str
    tokens_a_second: str
    parameters: str
    data: str
    read: str
    left_out: str
    none_left_out: str
    for_training: str
    for_validation: str
    for_test: str
    faults: str
    same_pairs: str
    other_translations: str
    unknown: str
    seen: str
    examined: str
    lengths: str
    lengths_axis: str
    source: str
    target: str
    longest: str
    training: str
    update: str
    loss_curve: str
    score_curve: str
    on_training: str
    on_validation: str
    rate: str
    scores: str
    on_test_part: str
    on_validation_part: str
    worst: str
    worst_note: str
    model: str
    human: str
    attention: str
    attention_note: str
    drawing: str
    as_text: str
    again: str
    settings: str


ENGLISH = ReportMessages(
    title="Translator {source} → {target}",
    loss="validation loss, nats a token",
    minutes="minutes",
    tokens_a_second="target tokens a second",
    parameters="parameters",
    data="Data and its faults",
    read="pairs read",
    left_out="left out: {reason}",
    none_left_out="left out",
    for_training="pairs to train on",
    for_validation="pairs to validate on",
    for_test="pairs to test on",
    faults="What is left in it",
    same_pairs="training pairs that came before, exactly",
    other_translations="training sources with more than one translation",
    unknown="unknown tokens in training",
    seen="of {count} held-out sources stand in training too",
    examined="Looked at: {count} training pairs.",
    lengths="Lengths of training sentences",
    lengths_axis="tokens; the last bar holds all longer ones",
    source="source",
    target="target",
    longest="The longest training pair",
    training="Training",
    update="update (optimizer step)",
    loss_curve="Loss, nats a target token",
    score_curve="Validation scores, 0 to 100",
    on_training="training",
    on_validation="validation",
    rate="{passes} passes over the data, {tokens} target tokens in {minutes} minutes.",
    scores="Scores",
    on_test_part="On the test part, {count} sentences that training never looked at (beam search):",
    on_validation_part="On the validation part, {count} sentences by which the weights were chosen (beam search); "
    "this run held no test part out:",
    worst="Worst sentences",
    worst_note="The held-out sentences with the lowest chrF. Look for names, numbers, rare words, wrong references.",
    model="model",
    human="human",
    attention="Attention",
    attention_note="Five held-out sentences, from the worst translated to the best.",
    drawing="The model",
    as_text="the same as text",
    again="To make it again",
    settings="all settings (config.json)",
)

TURKISH = ReportMessages(
    title="Çevirmen {source} → {target}",
    loss="doğrulama kaybı, belirteç başına nat",
    minutes="dakika",
    tokens_a_second="saniyede hedef belirteci",
    parameters="parametre",
    data="Veri ve kusurları",
    read="okunan çift",
    left_out="dışarıda kalan: {reason}",
    none_left_out="dışarıda kalan",
    for_training="eğitim çifti",
    for_validation="doğrulama çifti",
    for_test="sınama çifti",
    faults="İçinde kalanlar",
    same_pairs="tıpatıp daha önce geçmiş eğitim çifti",
    other_translations="birden çok çevirisi olan eğitim kaynağı",
    unknown="eğitimde bilinmeyen belirteç",
    seen="ayrılmış {count} kaynaktan eğitimde de geçen",
    examined="Bakılan: {count} eğitim çifti.",
    lengths="Eğitim cümlelerinin uzunlukları",
    lengths_axis="belirteç; daha uzunların hepsi son çubukta",
    source="kaynak",
    target="hedef",
    longest="En uzun eğitim çifti",
    training="Eğitim",
    update="güncelleme (eniyileme adımı)",
    loss_curve="Kayıp, hedef belirteci başına nat",
    score_curve="Doğrulama puanları, 0–100",
    on_training="eğitim",
    on_validation="doğrulama",
    rate="Veri {passes} kez geçildi; {minutes} dakikada {tokens} hedef belirteci.",
    scores="Puanlar",
    on_test_part="Sınama bölümünde, eğitimin hiç görmediği {count} cümlede (ışın araması):",
    on_validation_part="Doğrulama bölümünde, ağırlıkların seçildiği {count} cümlede (ışın araması); "
    "bu koşu sınama bölümü ayırmadı:",
    worst="En kötü cümleler",
    worst_note="chrF puanı en düşük ayrılmış cümleler. Adlara, sayılara, seyrek sözcüklere, yanlış çevirilere bakın.",
    model="model",
    human="insan",
    attention="Dikkat",
    attention_note="En kötü çevrilenden en iyisine beş ayrılmış cümle.",
    drawing="Model",
    as_text="aynısı metin olarak",
    again="Yeniden yapmak için",
    settings="bütün ayarlar (config.json)",
)

_WORDINGS = {"en": ENGLISH, "tr": TURKISH}


def report_messages(language: str) -> ReportMessages:
    """Return the messages in English (`en`) or Turkish (`tr`). Raises `UsageError` for another language."""
    if language not in _WORDINGS:
        raise UsageError(f'there is no report in "{language}"; choose from {", ".join(_WORDINGS)}')
    return _WORDINGS[language]
