"""Every sentence and heading of an explanation in Turkish, with the terms of the Turkish edition of d2l."""

from __future__ import annotations

from dikkat.explain.messages import Headings, Messages, SixSteps, ThreeSteps

TURKISH = Messages(
    headings=Headings(
        word="sözcük",
        token="belirteç",
        vector="vektör",
        products="q·k, terim terim",
        score="puan",
        additive="v·tanh(q + k), terim terim",
        scaled="puan × β",
        bias="konum",
        biased="konumla",
        mask="maskeden sonra",
        masked="maskeli",
        exponential="üstel",
        exponential_shifted="(puan − {largest}) üsteli",
        quotient="üstel / toplam",
        weight="ağırlık",
        key="anahtar k",
        value="değer v",
        weighted="ağırlık × değer",
        sum="toplam",
    ),
    three=ThreeSteps(
        title="“{sentence}”: “{query}” için üç adımda özdikkat",
        introduction="Her sözcük hem sorgu, hem anahtar, hem de değerdir; eğitilmiş matris yoktur. Genişlik: {width}.",
        left_out="{tokens} için vektör yok; hesaba katılmadı.",
        scores=(
            "Adım 1. Puanlar",
            "Bir sözcüğün puanı, “{query}” sorgusu ile o sözcüğün anahtarının nokta çarpımıdır: "
            "sayılar karşılıklı çarpılır, sonra toplanır.",
        ),
        weights=(
            "Adım 2. Ağırlıklar",
            "Softmax: her puanın üsteli alınır ve bütün üstellerin toplamına bölünür. "
            "Ağırlıklar pozitiftir ve toplamları 1'dir.",
        ),
        beta="Bundan önce her puan β = {beta} ile çarpılır.",
        context=(
            "Adım 3. Bağlam",
            "Her değer kendi ağırlığıyla çarpılır ve sonuçlar toplanır: “{query}” için bağlam vektörü.",
        ),
        summary="Kısaca: puanlar {scores} · ağırlıklar {weights} · bağlam {context}",
    ),
    six=SixSteps(
        title="{attention}, katman {layer}, kafa {head}: altı adımda “{query}”",
        attentions={
            ("encoder", "self"): "Kodlayıcının özdikkati",
            ("decoder", "self"): "Kodçözücünün maskeli özdikkati",
            ("decoder", "cross"): "Kodçözücünün çapraz dikkati",
        },
        sentence="Cümle: “{sentence}”",
        target="Kodçözücünün okuduğu çeviri: “{target}”",
        cross="Sorgular çeviriden, anahtarlar ve değerler kodlayıcının bu cümle için çıktısından gelir.",
        model="Modelin genişliği: {model_dim}. Bu katmandaki kafa sayısı: {num_heads}; "
        "her kafanın genişliği: {head_dim}.",
        tokens="Anahtarlar: {tokens}",
        queries="Sorgular: {tokens}",
        reading="“{read}” okundu; kodçözücü “{written}” yazmak üzere.",
        vectors=(
            "Adım 1. Sorgu, anahtar ve değer",
            "Eğitilmiş üç matris, WQ, WK ve WV, her belirteç için {head_dim} sayılık üç vektör üretir: sorgu q, "
            "anahtar k ve değer v. “{query}” için {model_dim} sayılık x vektöründen q elde edilir.",
        ),
        inputs={
            "embedding": "Bu ilk katmanda x, belirtecin gömmesinden ve konumsal kodlamasından oluşur.",
            "bare_embedding": "Bu ilk katmanda x, belirtecin gömmesinden oluşur.",
            "below": "x, bir alttaki katmandan (katman {below}) gelir.",
            "cross": "x, aynı katmanın maskeli özdikkatinden gelir; k ve v kodlayıcının çıktısından üretilir.",
        },
        turns={
            "rotary": "Sonra q ve k, belirteçlerinin konumuna göre döndürülür (döner konumlar).",
            "bilinear": "Sonra q, eğitilmiş bir matrisle daha çarpılır (çift doğrusal puan).",
        },
        scores=(
            "Adım 2. Puanlar",
            "“{query}” sorgusu her belirteci puanlar: puan, q ile o belirtecin anahtarının nokta çarpımıdır.",
        ),
        additive="“{query}” sorgusu her belirteci toplamsal puanla puanlar: q ile o belirtecin anahtarı toplanır, "
        "tanh alınır, eğitilmiş v vektörüyle çarpılır ve toplanır.",
        scaling=(
            "Adım 3. Ölçekleme",
            "Her puan, anahtar genişliğinin kareköküne, √{head_dim} = {root} sayısına bölünür "
            "(yani β = {beta} ile çarpılır). Böylece softmax aşırı keskinleşmez.",
        ),
        free_scaling="Her puan, ters sıcaklık β = {beta} ile çarpılır.",
        bias="Sonra her belirtecin “{query}” sorgusuna göre konumu kendi payını ekler.",
        masking="Sonra maske, {total} belirteçten {count} tanesini “{query}” sorgusundan gizler; ağırlıkları 0 olur.",
        softmax=(
            "Adım 4. Softmax",
            "Ölçeklenmiş her puanın üsteli alınır ve bütün üstellerin toplamına bölünür. "
            "Ağırlıklar pozitiftir ve toplamları 1'dir.",
        ),
        hard=(
            "Adım 4. Seçim",
            "Seçim katıdır: bütün ağırlık en yüksek puana (eşitlikte ilkine) gider, ötekilere hiç kalmaz.",
        ),
        all_masked="Bütün belirteçler maskeli: bütün ağırlıklar 0, sonuç da 0 olur.",
        weighting=(
            "Adım 5. Ağırlıklı değerler",
            "Her değer kendi ağırlığıyla çarpılır: önemli belirteçler değerlerini korur, ötekiler silinip gider.",
        ),
        drowned="Burada ağırlığı 0.001'in altında kalıp silinenler: {tokens}.",
        none_drowned="Burada silinen belirteç yok: her ağırlık en az 0.001.",
        total=("Adım 6. Toplam", "Ağırlıklı değerler toplanır: z, bu kafanın “{query}” için çıktısıdır."),
        check="Modelin bu kafa için float32 ile hesapladığı kendi çıktısı ile z arasındaki en büyük fark: "
        "{difference}.",
        heads="{num_heads} kafanın hepsi bunu kendi matrisleriyle yapar. Yan yana konan z vektörleri "
        "({joined} sayı), WO matrisiyle ({joined} × {model_dim}) çarpılınca dikkatin çıktısı elde edilir; bu çıktı "
        "alt katmanın girdisine eklenir (artık bağlantı), normalleştirilir ve {onward} gider.",
        onward={
            "feed_forward": "ileri beslemeli ağa",
            "cross_attention": "çapraz dikkate",
        },
    ),
    rounding="Her sayı bütün basamaklarıyla hesaplanır, yalnızca yazılırken yuvarlanır.",
    shortened="“…”, hesaba katılan ama gösterilmeyen sayıların yerini tutar; --full hepsini gösterir.",
    shifted="Puanlar büyük olduğu için önce en büyüğü, {largest}, her birinden çıkarılır: "
    "hiçbir ağırlık değişmez, hiçbir üstel taşmaz.",
)
