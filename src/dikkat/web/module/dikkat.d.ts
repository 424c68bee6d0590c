/** Where a model file is: a URL, in Node also a path, or its bytes. */
export type Source = string | URL | ArrayBuffer | Uint8Array;

export interface LoadOptions {
  /** Whether WebAssembly with SIMD computes where there is any; else plain JavaScript does. True if left out. */
  simd?: boolean;
}

/** One head: its kind of attention, and layer and head from 0. */
export type HeadName = ["encoder-self" | "decoder-self" | "cross", number, number];

export interface TranslateOptions {
  /** Hypotheses that are followed side by side; 1, the default, is greedy. */
  beamSize?: number;
  /** Heads whose output is zero. */
  headsOff?: HeadName[];
}

export interface Translation {
  text: string;
  /** Log-probability over the length to the power of the run's length penalty (1.6 unless it says otherwise), in nats. */
  score: number;
  /** Whether the model ended it itself, before the length limit. */
  finished: boolean;
  /** Subwords; "▁" stands for a space. */
  tokens: string[];
}

/** Weights of one layer: `values[(head * T + query) * S + key]`, with `shape` being [heads, T, S]. */
export interface AttentionMap {
  shape: [number, number, number];
  values: Float32Array;
}

export interface Attention {
  /** S tokens; the last is the end mark. */
  sourceTokens: string[];
  /** T + 1 tokens: row t of a decoder's map has read token t and is about to write token t + 1. */
  targetTokens: string[];
  /** One map a layer. */
  encoder: AttentionMap[];
  decoder: AttentionMap[];
  cross: AttentionMap[];
}

/** A trained translator. */
export class Translator {
  static load(source: Source, options?: LoadOptions): Promise<Translator>;
  /** What computes: "WebAssembly SIMD" or "JavaScript". */
  readonly engine: string;
  /** Translates every line and every sentence of it as `dikkat translate` does. */
  translate(text: string, options?: TranslateOptions): Translation;
  /** Yields what is written so far after each token, and returns the translation. */
  stream(text: string, options?: TranslateOptions): Generator_<string, Translation>;
  /** Every attention map of reading a text and writing a given translation of it; RangeError where it is empty or too long. */
  attend(text: string, target: string, options?: Pick<TranslateOptions, "headsOff">): Attention;
}

export interface Classification {
  label: string;
  probability: number;
  probabilities: Record<string, number>;
}

/** A trained classifier. */
export class Classifier {
  static load(source: Source, options?: LoadOptions): Promise<Classifier>;
  readonly engine: string;
  readonly labels: string[];
  classify(text: string): Classification;
}

export interface Span {
  /** The class of the words, without the B- or I- of one that begins or continues a name. */
  label: string;
  /** Offsets in the text, as `text.slice(start, end)` counts them. */
  start: number;
  end: number;
  text: string;
  /** The mean over the words of the span. */
  probability: number;
}

/** An imported model that classes every token: names of people and places, parts of speech. */
export class Tagger {
  static load(source: Source, options?: LoadOptions): Promise<Tagger>;
  readonly engine: string;
  readonly labels: string[];
  /** The marked spans of a text of any length. */
  tag(text: string): Span[];
}

/** An imported model that answers a text with numbers. */
export class Regressor {
  static load(source: Source, options?: LoadOptions): Promise<Regressor>;
  readonly engine: string;
  readonly outputs: string[];
  /** The number of each output. */
  predict(text: string): Record<string, number>;
}

export interface SamplingOptions {
  /** Below 1 sharper, above 1 flatter; 0 takes the likeliest token. */
  temperature?: number;
  /** Draw among this many likeliest tokens; 0 keeps all. */
  topK?: number;
  /** Draw among the fewest likeliest tokens that hold this share. */
  topP?: number;
  /** Gives numbers of [0, 1); Math.random if left out. */
  random?: () => number;
}

/** A trained language model. */
export class Generator {
  static load(source: Source, options?: LoadOptions): Promise<Generator>;
  readonly engine: string;
  /** What may follow a text, the likeliest first. */
  next(text: string, options?: SamplingOptions & { count?: number }): { token: string; probability: number }[];
  /** Yields the continuation so far after each token; with `chat` the answer to a message, by the model's chat template. */
  stream(text: string, options?: SamplingOptions & { maxTokens?: number; chat?: boolean }): Generator_<string, void>;
  generate(text: string, options?: SamplingOptions & { maxTokens?: number; chat?: boolean }): string;
}

type Generator_<Part, Result> = globalThis.Generator<Part, Result, undefined>;
