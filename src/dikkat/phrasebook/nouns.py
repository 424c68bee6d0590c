"""The nouns, names and numbers of the phrasebook."""

from __future__ import annotations

from dikkat.phrasebook.entries import Gender, Name, Noun, Number


def _noun(
    english: str,
    french: str,
    gender: Gender,
    turkish: str,
    kinds: str,
    *,
    plural: str = "",
    oblique: str = "",
) -> Noun:
    classes = frozenset(kinds.split())
    return Noun(english, french, gender, turkish, classes, plural, oblique, "mass" in classes)


PEOPLE = (
    _noun("man", "homme", "m", "adam", "person", plural="men"),
    _noun("woman", "femme", "f", "kadın", "person", plural="women"),
    _noun("boy", "garçon", "m", "oğlan", "person child"),
    _noun("girl", "fille", "f", "kız", "person child"),
    _noun("child", "enfant", "m", "çocuk", "person child", plural="children"),
    _noun("baby", "bébé", "m", "bebek", "person child infant"),
    _noun("mother", "mère", "f", "anne", "person kin family unique"),
    _noun("father", "père", "m", "baba", "person kin family unique"),
    _noun("sister", "sœur", "f", "kız kardeş", "person kin family"),
    _noun("brother", "frère", "m", "erkek kardeş", "person kin family"),
    _noun("aunt", "tante", "f", "teyze", "person kin family"),
    _noun("uncle", "oncle", "m", "amca", "person kin family"),
    _noun("friend", "ami", "m", "arkadaş", "person kin"),
    _noun("neighbor", "voisin", "m", "komşu", "person kin"),
    _noun("teacher", "professeur", "m", "öğretmen", "person"),
    _noun("doctor", "médecin", "m", "doktor", "person"),
    _noun("nurse", "infirmière", "f", "hemşire", "person"),
    _noun("student", "étudiant", "m", "öğrenci", "person"),
    _noun("farmer", "agriculteur", "m", "çiftçi", "person"),
    _noun("baker", "boulanger", "m", "fırıncı", "person"),
    _noun("singer", "chanteuse", "f", "şarkıcı", "person"),
    _noun("writer", "écrivain", "m", "yazar", "person"),
    _noun("king", "roi", "m", "kral", "person"),
    _noun("queen", "reine", "f", "kraliçe", "person"),
)

ANIMALS = (
    _noun("animal", "animal", "m", "hayvan", "animal"),
    _noun("cat", "chat", "m", "kedi", "animal small furred"),
    _noun("dog", "chien", "m", "köpek", "animal small furred"),
    _noun("bird", "oiseau", "m", "kuş", "animal small furred bird"),
    _noun("duck", "canard", "m", "ördek", "animal small bird"),
    _noun("rabbit", "lapin", "m", "tavşan", "animal small furred"),
    _noun("mouse", "souris", "f", "fare", "animal small", plural="mice"),
    _noun("horse", "cheval", "m", "at", "animal furred"),
    _noun("cow", "vache", "f", "inek", "animal furred"),
    _noun("bear", "ours", "m", "ayı", "animal"),
    _noun("fox", "renard", "m", "tilki", "animal"),
    _noun("wolf", "loup", "m", "kurt", "animal", plural="wolves", oblique="kurd"),
    _noun("elephant", "éléphant", "m", "fil", "animal"),
)

FOOD = (
    _noun("apple", "pomme", "f", "elma", "food fruit portable washable ripe"),
    _noun("orange", "orange", "f", "portakal", "food fruit portable"),
    _noun("banana", "banane", "f", "muz", "food fruit portable"),
    _noun("pear", "poire", "f", "armut", "food fruit portable washable", oblique="armud"),
    _noun("tomato", "tomate", "f", "domates", "food fruit portable washable ripe", plural="tomatoes"),
    _noun("carrot", "carotte", "f", "havuç", "food fruit portable washable cookable"),
    _noun("egg", "œuf", "m", "yumurta", "food portable cookable"),
    _noun("cake", "gâteau", "m", "pasta", "food portable"),
    _noun("sandwich", "sandwich", "m", "sandviç", "food portable", oblique="sandviç"),
    _noun("salad", "salade", "f", "salata", "food"),
    _noun("bread", "pain", "m", "ekmek", "food mass"),
    _noun("cheese", "fromage", "m", "peynir", "food mass"),
    _noun("soup", "soupe", "f", "çorba", "food mass cookable warm"),
    _noun("rice", "riz", "m", "pilav", "food mass cookable"),
    _noun("meat", "viande", "f", "et", "food mass cookable"),
    _noun("chocolate", "chocolat", "m", "çikolata", "food mass"),
    _noun("honey", "miel", "m", "bal", "food mass"),
)

DRINKS = (
    _noun("water", "eau", "f", "su", "drink mass warm", oblique="suy"),
    _noun("milk", "lait", "m", "süt", "drink mass warm"),
    _noun("tea", "thé", "m", "çay", "drink mass warm"),
    _noun("coffee", "café", "m", "kahve", "drink mass warm"),
    _noun("wine", "vin", "m", "şarap", "drink mass"),
    _noun("lemonade", "limonade", "f", "limonata", "drink mass"),
)

THINGS = (
    _noun("book", "livre", "m", "kitap", "thing portable readable written gift coloured"),
    _noun("letter", "lettre", "f", "mektup", "thing portable readable written openable gift"),
    _noun("newspaper", "journal", "m", "gazete", "thing portable readable"),
    _noun("map", "carte", "f", "harita", "thing portable readable drawable gift"),
    _noun("photo", "photo", "f", "fotoğraf", "thing portable sight gift"),
    _noun("painting", "tableau", "m", "tablo", "thing portable sight gift"),
    _noun("flower", "fleur", "f", "çiçek", "thing portable sight drawable gift coloured"),
    _noun("pen", "stylo", "m", "kalem", "thing portable gift coloured"),
    _noun("key", "clé", "f", "anahtar", "thing portable gift"),
    _noun("ball", "ballon", "m", "top", "thing portable gift coloured"),
    _noun("hat", "chapeau", "m", "şapka", "thing portable washable gift coloured"),
    _noun("shirt", "chemise", "f", "gömlek", "thing portable washable gift coloured"),
    _noun("shoe", "chaussure", "f", "ayakkabı", "thing portable coloured"),
    _noun("bag", "sac", "m", "çanta", "thing portable openable container gift coloured"),
    _noun("box", "boîte", "f", "kutu", "thing portable openable container gift coloured"),
    _noun("gift", "cadeau", "m", "hediye", "thing portable gift"),
    _noun("ticket", "billet", "m", "bilet", "thing portable gift"),
    _noun("umbrella", "parapluie", "m", "şemsiye", "thing portable openable gift coloured"),
    _noun("cup", "tasse", "f", "fincan", "thing portable washable breakable gift coloured"),
    _noun("knife", "couteau", "m", "bıçak", "thing portable washable", plural="knives"),
    _noun("lamp", "lampe", "f", "lamba", "thing portable breakable repairable coloured"),
    _noun("phone", "téléphone", "m", "telefon", "thing portable breakable repairable gift"),
    _noun("computer", "ordinateur", "m", "bilgisayar", "thing repairable portable"),
    _noun("bicycle", "vélo", "m", "bisiklet", "thing repairable washable paintable coloured"),
    _noun("car", "voiture", "f", "araba", "thing repairable washable paintable landmark coloured"),
    _noun("boat", "bateau", "m", "tekne", "thing repairable paintable drawable coloured"),
    _noun("train", "train", "m", "tren", "thing awaited"),
    _noun("table", "table", "f", "masa", "thing furniture paintable cleanable"),
    _noun("chair", "chaise", "f", "sandalye", "thing furniture paintable breakable cleanable"),
    _noun("bed", "lit", "m", "yatak", "thing furniture"),
    _noun("door", "porte", "f", "kapı", "thing openable paintable landmark cleanable"),
    _noun("window", "fenêtre", "f", "pencere", "thing openable breakable landmark cleanable"),
    _noun("tree", "arbre", "m", "ağaç", "thing landmark shade drawable"),
    _noun("river", "rivière", "f", "nehir", "thing crossed drawable", oblique="nehr"),
    _noun("bridge", "pont", "m", "köprü", "thing crossed drawable"),
    _noun("road", "route", "f", "yol", "thing crossed"),
)

SITES = (
    _noun("house", "maison", "f", "ev", "place goal landmark paintable cleanable drawable coloured"),
    _noun("room", "chambre", "f", "oda", "place indoors cleanable paintable"),
    _noun("kitchen", "cuisine", "f", "mutfak", "place indoors cleanable paintable"),
    _noun("garden", "jardin", "m", "bahçe", "place outdoors goal crossed"),
    _noun("park", "parc", "m", "park", "place outdoors goal crossed"),
    _noun("forest", "forêt", "f", "orman", "place outdoors crossed"),
    _noun("street", "rue", "f", "sokak", "place outdoors crossed"),
    _noun("village", "village", "m", "köy", "place outdoors goal sights"),
    _noun("city", "ville", "f", "şehir", "place sights", oblique="şehr"),
    _noun("school", "école", "f", "okul", "place goal landmark"),
    _noun("hospital", "hôpital", "m", "hastane", "place goal landmark"),
    _noun("library", "bibliothèque", "f", "kütüphane", "place goal landmark"),
    _noun("museum", "musée", "m", "müze", "place goal landmark sights"),
    _noun("church", "église", "f", "kilise", "place goal landmark sights"),
    _noun("castle", "château", "m", "şato", "place goal landmark sights drawable"),
    _noun("hotel", "hôtel", "m", "otel", "place goal landmark"),
    _noun("restaurant", "restaurant", "m", "restoran", "place goal landmark"),
    _noun("office", "bureau", "m", "ofis", "place goal cleanable"),
    _noun("farm", "ferme", "f", "çiftlik", "place outdoors goal"),
)

NOUNS = PEOPLE + ANIMALS + FOOD + DRINKS + THINGS + SITES

NAMES = (
    Name("Tom", "m"),
    Name("Ali", "m"),
    Name("Martin", "m"),
    Name("Anna", "f"),
    Name("Emma", "f"),
    Name("Sara", "f"),
    Name("Leyla", "f"),
)

NUMBERS = (
    Number("two", "deux", "iki"),
    Number("three", "trois", "üç"),
    Number("four", "quatre", "dört"),
    Number("five", "cinq", "beş"),
    Number("six", "six", "altı"),
    Number("seven", "sept", "yedi"),
    Number("eight", "huit", "sekiz"),
    Number("nine", "neuf", "dokuz"),
    Number("ten", "dix", "on"),
    Number("eleven", "onze", "on bir"),
    Number("twelve", "douze", "on iki"),
    Number("twenty", "vingt", "yirmi"),
)
