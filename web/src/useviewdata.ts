// Requests the data of a view from the worker, repeatedly while the process runs.
import { api, isReport } from "./api.ts";
import { useRequest } from "./state.ts";
import { computeView, type ViewRequest, type ViewResult } from "./viewdata.ts";
import type { WorkerRequest, WorkerResponse } from "./worker.ts";

const POLL_INTERVAL_MS = 5000; // ms

// Created with the page, so that it is ready for the first view. There is one request at a time: a new request
// cancels the previous one.
const worker = isReport ? null : new Worker("worker.js");
let pending: { id: number; resolve: (result: ViewResult) => void; reject: (problem: Error) => void } | null = null;
let lastId = 0;
let failed: Error | null = null; // possibly before the first request

worker?.addEventListener("message", ({ data: { id, result, error: problem } }: MessageEvent<WorkerResponse>) => {
  if (pending?.id !== id) return;
  if (result) pending.resolve(result);
  else pending.reject(new Error(problem));
});
worker?.addEventListener("error", (event) => {
  failed = new Error(`the page's worker failed: ${event.message || "worker.js cannot be loaded"}`);
  pending?.reject(failed);
});

async function request(viewRequest: ViewRequest, age: number): Promise<ViewResult> {
  const { kind, at, base, rows } = viewRequest;
  if (!worker) return computeView(await api.stacks(kind, at, base, rows), viewRequest);
  if (failed) throw failed;
  return new Promise((resolve, reject) => {
    pending = { id: ++lastId, resolve, reject };
    worker.postMessage({ id: lastId, request: viewRequest, age } satisfies WorkerRequest);
  });
}

/** The latest data for a request. While new data is computed, the previous data is returned. */
export function useViewData(viewRequest: ViewRequest | null) {
  const isLive = !!viewRequest?.isLive;
  return useRequest<ViewResult | null>(
    async (isRepeat) => viewRequest && request(viewRequest, isRepeat ? 0 : isLive ? POLL_INTERVAL_MS : Infinity),
    isLive ? POLL_INTERVAL_MS : 0,
    [JSON.stringify(viewRequest)],
  );
}
