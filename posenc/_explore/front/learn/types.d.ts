// The types of a training panel.

import type { Control, Tensor, Values, ViewSpec } from "../types";

/** What is trained: indices and names are those of the spec. */
export interface Plan {
  task: string;
  schemes: string[];
  seed: number;
}

/** The losses of the schemes at each step that was taken, and how many steps there have been. */
export interface Progress {
  done: number;
  losses: number[][];
}

/** What the models know about texts of one length. */
export interface Exam {
  tokens: Tensor;
  targets: Tensor;
  share: Tensor;
  schemes: { accuracy: Tensor; loss: Tensor; written: Tensor; heads: Tensor; watched: Tensor[] }[];
}

/** What trains: the graphs in a worker or in the page, or a kernel. */
export interface Trainer {
  begin(plan: Plan): Promise<void>;
  advance(milliseconds: number, rate: number, n: number, most: number, limit: number): Promise<Progress>;
  exam(length: number, n: number): Promise<Exam>;
  keep(): Promise<void>;
  back(): Promise<number>;
  end(): Promise<void>;
}

/** What a training panel has, as panel.py writes it; a page adds its graphs. */
export interface LearnSpec {
  kind: "learn";
  name: string;
  title: string;
  caption: string;
  schemes: { name: string; title: string; colour: string; watched?: ViewSpec }[]; // and what is seen of its parameters
  show: ("watched" | "losses" | "accuracy" | "maps")[]; // the pictures, in their order
  on: boolean[]; // which schemes are trained at the start
  many: boolean; // each scheme has a small map, and one of them a large one
  numbered: boolean[]; // whether the rule of a task has the number n
  recorded?: { shares: number[]; maps: string }; // what the small maps show before a training
  controls: Control[];
  starts: Values;
  views: { losses: ViewSpec; accuracy: ViewSpec; map: ViewSpec };
  symbols: string[];
  length: number; // of the texts of training
  steps: number; // after which training pauses
  limit: number; // a loss above it has diverged
  graphs?: Record<string, string>;
  apart?: string;
}
