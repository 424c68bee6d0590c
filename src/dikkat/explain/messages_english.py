"""Every sentence and heading of an explanation in English."""

from __future__ import annotations

from dikkat.explain.messages import Headings, Messages, SixSteps, ThreeSteps

ENGLISH = Messages(
    headings=Headings(
        word="word",
        token="token",
        vector="vector",
        products="q·k, term by term",
        score="score",
        additive="v·tanh(q + k), term by term",
        scaled="score × β",
        bias="position",
        biased="with position",
        mask="after the mask",
        masked="masked",
        exponential="exponential",
        exponential_shifted="exponential of (score − {largest})",
        quotient="exponential / sum",
        weight="weight",
        key="key k",
        value="value v",
        weighted="weight × value",
        sum="sum",
    ),
    three=ThreeSteps(
        title="“{sentence}”: self-attention of “{query}” in three steps",
        introduction="Each word is its own query, key and value: there are no trained matrices. Width: {width}.",
        left_out="{tokens} has no vector and is left out.",
        scores=(
            "Step 1. Scores",
            "The score of a word is the dot product of the query “{query}” and the key of that word: "
            "multiply number by number, then add.",
        ),
        weights=(
            "Step 2. Weights",
            "Softmax: take the exponential of each score and divide it by the sum of all exponentials. "
            "The weights are positive and sum to 1.",
        ),
        beta="Before that, each score is multiplied by β = {beta}.",
        context=(
            "Step 3. Context",
            "Multiply each value by its weight and add them up: the context vector of “{query}”.",
        ),
        summary="In short: scores {scores} · weights {weights} · context {context}",
    ),
    six=SixSteps(
        title="{attention}, layer {layer}, head {head}: “{query}” in six steps",
        attentions={
            ("encoder", "self"): "Encoder self-attention",
            ("decoder", "self"): "Masked decoder self-attention",
            ("decoder", "cross"): "Cross-attention of the decoder",
        },
        sentence="Sentence: “{sentence}”",
        target="Translation that the decoder reads: “{target}”",
        cross="The queries come from the translation, the keys and values from the encoder's output for the sentence.",
        model="Width of the model: {model_dim}. Heads in this layer: {num_heads}, each of width {head_dim}.",
        tokens="Keys: {tokens}",
        queries="Queries: {tokens}",
        reading="Having read “{read}”, the decoder is about to write “{written}”.",
        vectors=(
            "Step 1. Query, key and value",
            "Three trained matrices WQ, WK and WV make three vectors of {head_dim} numbers for each token: "
            "a query q, a key k and a value v. For “{query}”, x with {model_dim} numbers becomes q.",
        ),
        inputs={
            "embedding": "In this first layer, x is made from the embedding of the token and its positional encoding.",
            "bare_embedding": "In this first layer, x is made from the embedding of the token.",
            "below": "x comes from layer {below}, right below this one.",
            "cross": "x comes from the masked self-attention of the same layer; k and v are made from the encoder's "
            "output.",
        },
        turns={
            "rotary": "q and k are then rotated by the position of their token (rotary positions).",
            "bilinear": "q is then multiplied by one more trained matrix (bilinear score).",
        },
        scores=(
            "Step 2. Scores",
            "The query of “{query}” scores every token: the dot product of q with the key of that token.",
        ),
        additive="The query of “{query}” scores every token with the additive score: add q and the key of that token, "
        "take tanh, multiply by the trained vector v and add up.",
        scaling=(
            "Step 3. Scaling",
            "Each score is divided by √{head_dim} = {root}, the square root of the key's width "
            "(that is, multiplied by β = {beta}). This keeps the softmax from becoming too sharp.",
        ),
        free_scaling="Each score is multiplied by β = {beta}, the inverse temperature.",
        bias="Then the position of each token relative to “{query}” adds its share.",
        masking="The mask then hides {count} of {total} tokens from “{query}”; their weight is 0.",
        softmax=(
            "Step 4. Softmax",
            "Take the exponential of each scaled score and divide it by the sum of all exponentials. "
            "The weights are positive and sum to 1.",
        ),
        hard=(
            "Step 4. Choice",
            "The choice is hard: all weight goes to the highest score (the first, on a tie), none to the others.",
        ),
        all_masked="Every token is masked: all weights are 0, and so is the result.",
        weighting=(
            "Step 5. Weighted values",
            "Each value is multiplied by its weight: the tokens that matter keep their values, the others drown.",
        ),
        drowned="Drowned here, with a weight below 0.001: {tokens}.",
        none_drowned="No token has drowned here: every weight is at least 0.001.",
        total=("Step 6. Sum", "The weighted values are added up: z, the output of this head for “{query}”."),
        check="The model's own output of this head, computed in float32, differs from z by at most {difference}.",
        heads="All {num_heads} heads do this, each with its own matrices. Their z, side by side ({joined} numbers), "
        "times the matrix WO ({joined} × {model_dim}) are the output of the attention, which is added to the input of "
        "the sub-layer (residual connection) and normalised on its way {onward}.",
        onward={
            "feed_forward": "to the feed-forward network",
            "cross_attention": "to the cross-attention",
        },
    ),
    rounding="Every number is computed with all its digits and rounded only where it is printed.",
    shortened="“…” stands for numbers that are computed with but not shown; --full shows them all.",
    shifted="The scores are large, so the largest, {largest}, is first subtracted from each: "
    "no weight changes by that, and no exponential overflows.",
)
