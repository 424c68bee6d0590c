// Outputs that repeat themselves over and over, and how search keeps from that.

// Whether tokens repeat a group over and over, or did not end and return to the same three; `loops` are the runtime's limits.
function isLoop(tokens, isFinished, { copies, minLength, maxGroupLength, often }) {
  if (tokens.length - new Set(tokens).size < copies - 1) return false;
  for (let size = 1; size <= maxGroupLength; size++) {
    const wanted = Math.max(copies * size, minLength) - size;
    let run = 0;
    for (let i = size; i < tokens.length; i++) {
      run = tokens[i] === tokens[i - size] ? run + 1 : 0;
      if (run >= wanted) return true;
    }
  }
  const counts = new Map();
  for (let i = 2; i < tokens.length; i++) {
    const trigram = JSON.stringify(tokens.slice(i - 2, i + 1));
    counts.set(trigram, (counts.get(trigram) ?? 0) + 1);
  }
  return !isFinished && Math.max(0, ...counts.values()) >= often;
}

// Tokens that would end an n-gram of `size` tokens which there is already.
function completingTokens(tokens, size) {
  const begun = tokens.slice(tokens.length - size + 1);
  return tokens.filter((_, end) => end >= size - 1 && begun.every((token, i) => tokens[end - size + 1 + i] === token));
}
