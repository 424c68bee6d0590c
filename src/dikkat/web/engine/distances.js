// What the distance of a key from a query adds to their score: a number of its bucket (Raffel et al. 2020, section 2.1).

const DISTANCE_BUCKETS = 32;
const FARTHEST = 128; // the distance from which all share a bucket

// (head, key minus query) to what is added after beta, by the table of a block (buckets, heads); null where there is none.
function distancesOf(tensors, name, settings, isCausal) {
  if (!settings.relative_bias) return null;
  const { values } = tensors.get(`${name}.bias.embedding`);
  return (head, away) => values[bucketOf(away, isCausal) * settings.num_heads + head];
}

// Half of the buckets are for keys after the query, where there are any; of those of each side half have one distance.
function bucketOf(away, isCausal) {
  const half = isCausal ? DISTANCE_BUCKETS : DISTANCE_BUCKETS / 2;
  const exact = half / 2;
  const later = away > 0 ? half : 0;
  const size = Math.abs(away);
  if (size < exact) return later + size;
  // a power of the step must not fall into the bucket below
  const far = exact + Math.floor((Math.log(size / exact) / Math.log(FARTHEST / exact)) * (half - exact) + 1e-9);
  return later + Math.min(far, half - 1);
}
