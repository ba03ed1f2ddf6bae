// Requests the data of a view from the worker, repeatedly while the process runs.
import { api, isReport } from "./api.ts";
import { type Look, type Question, lookAt } from "./look.ts";
import { useAnswer } from "./state.ts";
import type { Answered, Asked } from "./worker.ts";

const EVERY = 5000; // ms

// Created with the page, so that it is ready for the first view. There is one question at a time: a new question
// cancels the previous one.
const worker = isReport ? null : new Worker("worker.js");
let waiting: { id: number; resolve: (look: Look) => void; reject: (problem: Error) => void } | null = null;
let asked = 0;
let failed: Error | null = null; // possibly before the first question

worker?.addEventListener("message", ({ data: { id, look, problem } }: MessageEvent<Answered>) => {
  if (waiting?.id !== id) return;
  if (look) waiting.resolve(look);
  else waiting.reject(new Error(problem));
});
worker?.addEventListener("error", (event) => {
  failed = new Error(`the page's worker failed: ${event.message || "worker.js cannot be loaded"}`);
  waiting?.reject(failed);
});

async function ask(question: Question, age: number): Promise<Look> {
  const { kind, at, base, rows } = question;
  if (!worker) return lookAt(await api.stacks(kind, at, base, rows), question);
  if (failed) throw failed;
  return new Promise((resolve, reject) => {
    waiting = { id: ++asked, resolve, reject };
    worker.postMessage({ id: asked, question, age } satisfies Asked);
  });
}

/** The latest data for a question. While new data is computed, the previous data is returned. */
export function useLook(question: Question | null): { value: Look | null; problem: string } {
  const follows = !!question?.follows;
  return useAnswer<Look | null>(async (again) => question && ask(question, again ? 0 : follows ? EVERY : Infinity), follows ? EVERY : 0, [JSON.stringify(question)]);
}
