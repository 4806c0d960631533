// The types of a panel in which trained models read.

import type { Control, Tensor, Values, ViewSpec } from "../types";

/** What is changed in a model, by the names of reader.py. */
export interface Settings {
  on: number;
  base: number;
  scaling: number;
  factor: number;
  layout: number;
  slope: number;
}

/** A piece of text for a model, which goes on after what it has read in this slot, or begins anew. */
export interface Piece {
  model: string;
  slot: string;
  fresh: boolean;
  tokens: number[];
  pos: number[];
  head: number;
  settings: Settings;
}

/** How surprising each byte would be after each, in bits, (L, 256), and where a head looks from each, (L, all so far). */
export interface Answer {
  bits: Tensor;
  weights: Tensor;
}

/** What reads: graphs in a worker or in the page, or a kernel. */
export interface Reading {
  prepare(model: string): Promise<unknown>; // before it reads for the first time
  read(piece: Piece): Promise<Answer>;
}

export interface Model {
  name: string;
  title: string;
  colour: string;
  kind: string; // how position enters, a key of the sentences on breaks
  rows: number | null; // of a learned table
  knobs: (keyof Settings)[]; // settings that change something
}

/** Something that breaks a model, and what to expect of each kind of models. */
export interface Break {
  label: string;
  expect: Record<string, string>;
}

export interface PlaySpec {
  kind: "play";
  name: string;
  title: string;
  caption: string;
  models: Model[];
  texts: { label: string; text: string }[];
  breaks: Break[];
  length: number; // of the texts of training, in bytes
  most: number; // bytes that are read
  shape: number[]; // of keys and values before the first token
  controls: Control[];
  starts: Values;
  trained: Settings;
  views: { loss: ViewSpec; profile: ViewSpec; map: ViewSpec };
  recorded?: number[][]; // bits of each byte of the first text, of the two models at the start; the first is null
  graphs?: Record<string, string>;
  apart?: Record<string, string>;
}

/** A letter of a text: its bytes are those from `from` to `to`, which are none of UTF-8 where it is odd. */
export interface Letter {
  text: string;
  from: number;
  to: number;
  odd: boolean;
}

/** What a model made of a text. */
export interface Found {
  bits: Float32Array; // of each byte, NaN where there is none
  next: Float32Array[]; // after each byte, the bits of each that may come
  weights: Float32Array[]; // from each byte to all so far
  read: number; // bytes
}
