// Beam search by the rules of the native engine (c/search.c); a beam of one is greedy decoding.

// The `count` largest entries of a row as [value, index], largest first, of equal ones the one that stands first.
function topOf(row, count) {
  const best = [];
  for (let i = 0; i < row.length; i++) {
    if (best.length === count && !(row[i] > best[count - 1][0])) continue;
    let at = best.length;
    while (at > 0 && best[at - 1][0] < row[i]) at--;
    best.splice(at, 0, [row[i], i]);
    if (best.length > count) best.pop();
  }
  return best;
}

// The logarithm of the sum of exponentials of a row, less its largest entry.
function logSumOf(row, largest) {
  let sum = 0;
  for (let i = 0; i < row.length; i++) sum += Math.exp(row[i] - largest);
  return Math.fround(Math.log(sum));
}

// Writes a translation token by token. `step(tokens, caches)` gives a row of logits for each token, and `caches` are what
// the hypotheses have read, at first one.
//
// Yields after each step {step, candidates, best}: candidates are {parent, token, logProbability, score, fate}, best first,
// and `best` the tokens of the likeliest hypothesis so far. Returns {tokens, logProbability, score, finished, path, hypotheses}, path being
// the rank of its candidate in each step, and hypotheses the best `nBest`, of which it is the first.
//
// A sentence is over when its store is full and no live hypothesis, ending now, would be its best; where it is `thorough`,
// when none would enter the store; and when none can be among the best `nBest` however it goes on. No n-gram of `noRepeatNgram` tokens is written twice; 0 sets no limit.
function* search(step, cache, { cap, beamSize = 1, lengthPenalty = 1.6, thorough = false, noRepeatNgram = 0, nBest = 1 }) {
  const penalty = (length) => Math.fround(length ** lengthPenalty);
  let live = [{ tokens: [], logProbability: 0, cache, path: [] }];
  const ended = [];
  const settledRank = thorough ? beamSize - 1 : 0;
  for (let length = 1; ; length++) {
    const logits = step(live.map(({ tokens }) => tokens.at(-1) ?? BOS), live.map((hypothesis) => hypothesis.cache));
    const candidates = rankedCandidates(live, logits, beamSize, penalty(length), noRepeatNgram);
    const going = judge(candidates, live, ended, beamSize);
    const best = going[0] ?? live[0];
    yield { step: length, candidates, best: ended.length && ended[0].score >= candidates[0].score ? ended[0].tokens : best.tokens };
    const isFull = ended.length === beamSize && Math.fround(best.logProbability / penalty(length)) <= ended[settledRank].score;
    const isHopeless = ended.length >= nBest && Math.fround(best.logProbability / penalty(cap)) <= ended[nBest - 1].score;
    if (isFull || isHopeless || length >= cap || !going.length) {
      const cut = (going.length ? going : [best]).map(({ tokens, path, logProbability }) => ({ tokens, path, logProbability, score: Math.fround(logProbability / penalty(length)), finished: false }));
      const hypotheses = [...ended.map((one) => ({ ...one, finished: true })), ...cut].slice(0, nBest);
      return { ...hypotheses[0], hypotheses };
    }
    live = going;
    shareCaches(live);
  }
}

// The 2k best continuations of all hypotheses; of each hypothesis no more than its best k + 1 can matter.
function rankedCandidates(live, logits, beamSize, penalty, noRepeatNgram) {
  const all = live.flatMap((hypothesis, parent) => {
    const row = logits[parent];
    let largest = -Infinity;
    for (let i = 0; i < row.length; i++) if (row[i] > largest) largest = row[i];
    const logSum = logSumOf(row, largest);
    row[PAD] = row[BOS] = -Infinity;
    if (noRepeatNgram) for (const token of completingTokens(hypothesis.tokens, noRepeatNgram)) row[token] = -Infinity;
    return topOf(row, Math.min(beamSize + 1, row.length)).map(([logit, token]) => {
      const share = Math.fround(Math.fround(logit - largest) - logSum);
      return { parent, token, logProbability: Math.fround(hypothesis.logProbability + share) };
    });
  });
  const order = topOf(all.map(({ logProbability }) => logProbability), 2 * beamSize);
  return order.map(([logProbability, index]) => ({ ...all[index], score: Math.fround(logProbability / penalty), fate: "falls" }));
}

// Says of each candidate what becomes of it: of the first k those that end enter the store, and the first k that do not
// end go on, which are returned.
function judge(candidates, live, ended, beamSize) {
  const going = [];
  candidates.forEach((candidate, rank) => {
    const { tokens, cache, path } = live[candidate.parent];
    const { logProbability, score, token } = candidate;
    if (token !== EOS) {
      if (going.length === beamSize) return;
      candidate.fate = "lives";
      going.push({ tokens: [...tokens, token], logProbability, cache, path: [...path, rank] });
    } else if (rank < beamSize) {
      candidate.fate = "ends";
      // after its equals; the last falls out
      const at = ended.findIndex((other) => other.score < score);
      ended.splice(at < 0 ? ended.length : at, 0, { tokens, logProbability, score, path: [...path, rank] });
      ended.length = Math.min(ended.length, beamSize);
    }
  });
  return going;
}

// The first hypothesis that goes on from another takes over its cache; the others get copies.
function shareCaches(live) {
  const taken = new Set();
  for (const hypothesis of live) {
    if (taken.has(hypothesis.cache)) hypothesis.cache = hypothesis.cache.copy();
    else taken.add(hypothesis.cache);
  }
}
