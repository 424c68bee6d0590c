// What changes between two lines of words: the longest common subsequence stays, the rest goes or comes.

function differences(before, after) {
  const [a, b] = [before.split(" "), after.split(" ")];
  // common[i][j]: length of the longest common subsequence of a from i and b from j
  const common = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      common[i][j] = a[i] === b[j] ? common[i + 1][j + 1] + 1 : Math.max(common[i + 1][j], common[i][j + 1]);
    }
  }
  const edits = [];
  for (let i = 0, j = 0; i < a.length || j < b.length; ) {
    if (i < a.length && j < b.length && a[i] === b[j]) edits.push(["stays", a[i++], j++]);
    else if (j >= b.length || (i < a.length && common[i + 1][j] >= common[i][j + 1])) edits.push(["goes", a[i++]]);
    else edits.push(["comes", b[j++]]);
  }
  return edits;
}

// How many words change: the longer of what goes and what comes.
function countChanges(before, after) {
  const kinds = differences(before, after).map(([kind]) => kind);
  return Math.max(...["goes", "comes"].map((kind) => kinds.filter((other) => other === kind).length));
}

function markedDifferences(before, after) {
  const names = { goes: "del", comes: "ins", stays: "span" };
  return differences(before, after).flatMap(([kind, word]) => [isolatedIn(names[kind], word), " "]);
}

function isolatedIn(name, word) {
  return element(name, {}, isolated(word));
}
