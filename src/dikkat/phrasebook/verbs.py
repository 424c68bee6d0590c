"""The verbs of the phrasebook and the classes of nouns that go with them."""

from __future__ import annotations

from dikkat.phrasebook.entries import Case, Modal, Preposition, Verb

_DAT, _ABL, _INS = Case.DATIVE, Case.ABLATIVE, Case.INSTRUMENTAL

TRANSITIVE = (
    Verb("eat", "ate", "manger", "ye", "animate", "food", manner=True),
    Verb("drink", "drank", "boire", "iç", "person", "drink", manner=True),
    Verb("buy", "bought", "acheter", "satın al", "person", "portable food drink"),
    Verb("sell", "sold", "vendre", "sat", "person", "portable food drink"),
    Verb("cook", "cooked", "préparer", "pişir", "person", "cookable"),
    Verb("read", "read", "lire", "oku", "person", "readable", manner=True),
    Verb("write", "wrote", "écrire", "yaz", "person", "written"),
    Verb("draw", "drew", "dessiner", "çiz", "person", "animal drawable"),
    Verb("paint", "painted", "peindre", "boya", "person", "paintable"),
    Verb("open", "opened", "ouvrir", "aç", "person", "openable", manner=True),
    Verb("close", "closed", "fermer", "kapat", "person", "openable", manner=True),
    Verb("clean", "cleaned", "nettoyer", "temizle", "person", "cleanable"),
    Verb("wash", "washed", "laver", "yıka", "person", "washable"),
    Verb("repair", "repaired", "réparer", "tamir et", "person", "repairable"),
    Verb("break", "broke", "casser", "kır", "person", "breakable", punctual=True),
    Verb("carry", "carried", "porter", "taşı", "person", "furniture portable", manner=True),
    Verb("bring", "brought", "apporter", "getir", "person", "portable drink"),
    Verb("choose", "chose", "choisir", "seç", "person", "gift"),
    Verb("steal", "stole", "voler", "çal", "person", "gift", punctual=True),
    Verb("find", "found", "trouver", "bul", "person", "portable animal", punctual=True),
    Verb("lose", "lost", "perdre", "kaybet", "person", "portable", punctual=True),
    Verb("forget", "forgot", "oublier", "unut", "person", "portable", punctual=True, specific=True),
    Verb("look for", "looked for", "chercher", "ara", "animate", "person animal portable"),
    Verb("look at", "looked at", "regarder", "bak", "animate", "person animal sight", case=_DAT),
    Verb("visit", "visited", "visiter", "ziyaret et", "person", "sights", specific=True),
    Verb("see", "saw", "voir", "gör", "animate", "person animal thing", stative=True),
    Verb("hear", "heard", "entendre", "duy", "animate", "person animal", stative=True, specific=True),
    Verb("listen to", "listened to", "écouter", "dinle", "person", "person bird", specific=True),
    Verb("wait for", "waited for", "attendre", "bekle", "person", "person awaited", specific=True),
    Verb("cross", "crossed", "traverser", "geç", "animate", "crossed", specific=True),
    Verb("follow", "followed", "suivre", "takip et", "animate", "person animal", specific=True),
    Verb("help", "helped", "aider", "yardım et", "person", "person", case=_DAT),
    Verb("call", "called", "appeler", "çağır", "person", "person", specific=True),
    Verb("feed", "fed", "nourrir", "besle", "person", "animal infant", specific=True),
    Verb("talk to", "talked to", "parler", "konuş", "person", "person", case=_INS, to=True),
    Verb("phone", "phoned", "téléphoner", "telefon et", "person", "person", case=_DAT, to=True),
    Verb("answer", "answered", "répondre", "cevap ver", "person", "person", case=_DAT, to=True),
    Verb("know", "knew", "connaître", "tanı", "person", "person", stative=True, imperfect=True, specific=True),
    Verb("like", "liked", "aimer", "sev", "animate", "person animal food drink gift place",
         stative=True, imperfect=True, specific=True, generic=True),
    Verb("hate", "hated", "détester", "nefret et", "person", "animal food drink", case=_ABL,
         stative=True, imperfect=True, specific=True, generic=True),
)  # fmt: skip

DITRANSITIVE = (
    Verb("give", "gave", "donner", "ver", "person", "gift", "person"),
    Verb("show", "showed", "montrer", "göster", "person", "sight readable gift", "person"),
    Verb("send", "sent", "envoyer", "gönder", "person", "gift", "person"),
    Verb("lend", "lent", "prêter", "ödünç ver", "person", "readable repairable", "person"),
)

INTRANSITIVE = (
    Verb("sleep", "slept", "dormir", "uyu", "animate"),
    Verb("run", "ran", "courir", "koş", "animate"),
    Verb("walk", "walked", "marcher", "yürü", "animate", manner=True),
    Verb("swim", "swam", "nager", "yüz", "animate", manner=True),
    Verb("sing", "sang", "chanter", "şarkı söyle", "person", manner=True),
    Verb("dance", "danced", "danser", "dans et", "person", manner=True),
    Verb("work", "worked", "travailler", "çalış", "person", manner=True),
    Verb("study", "studied", "étudier", "ders çalış", "person", manner=True),
    Verb("play", "played", "jouer", "oyna", "animate", manner=True),
    Verb("laugh", "laughed", "rire", "gül", "person"),
    Verb("cry", "cried", "pleurer", "ağla", "person"),
    Verb("travel", "traveled", "voyager", "seyahat et", "person"),
    Verb("stay", "stayed", "rester", "kal", "animate"),
    Verb("fall", "fell", "tomber", "düş", "animate", punctual=True),
    Verb("leave", "left", "partir", "ayrıl", "person", punctual=True),
    Verb("fly", "flew", "voler", "uç", "bird", manner=True),
)

MOTION = (
    Verb("go", "went", "aller", "git", "animate", goal=Preposition.TO),
    Verb("return", "returned", "retourner", "dön", "person", goal=Preposition.TO),
    Verb("arrive", "arrived", "arriver", "var", "person", goal=Preposition.AT, punctual=True),
    Verb("come", "came", "venir", "gel", "animate", goal=Preposition.FROM),
)

VERBS = TRANSITIVE + DITRANSITIVE + INTRANSITIVE + MOTION

FIT = Verb("fit", "fit", "entrer", "sığ", "portable", goal=Preposition.INTO, stative=True)
"""Only of things, and only where it is said why they do not."""

MODALS = (
    Modal(Verb("want", "wanted", "vouloir", "iste", stative=True, imperfect=True), "", "mAk"),
    Modal(Verb("like", "liked", "aimer", "sev", stative=True, imperfect=True), "", "mAyI"),
    Modal(Verb("try", "tried", "essayer", "çalış"), "de", "mAyA"),
    Modal(Verb("start", "started", "commencer", "başla"), "à", "mAyA"),
)
