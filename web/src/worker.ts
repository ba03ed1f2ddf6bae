// The page's worker thread: it fetches profiles and computes the data of views (viewdata.ts). The page calls it through
// useviewdata.ts.
import type { Stacks } from "./answers.ts";
import { api } from "./api.ts";
import { computeView, transferables, type ViewRequest, type ViewResult } from "./viewdata.ts";

export interface WorkerRequest {
  id: number;
  request: ViewRequest;
  age: number; // ms: maximum age of the profile
}

export interface WorkerResponse {
  id: number;
  result?: ViewResult;
  error?: string;
}

// The last profile, because most requests are for the same one.
let cachedProfile: { key: string; stacks: Promise<Stacks>; receivedAt: number } | null = null;
let latestId = 0;

function fetchProfile({ kind, at, base, rows, isLive, runNumber }: ViewRequest, age: number): Promise<Stacks> {
  const key = JSON.stringify([kind, at, base, rows, isLive, runNumber]);
  if (cachedProfile?.key === key && Date.now() - cachedProfile.receivedAt <= age) return cachedProfile.stacks;
  const entry = { key, stacks: api.stacks(kind, at, base, rows), receivedAt: Infinity };
  cachedProfile = entry;
  const received = () => {
    entry.receivedAt = Date.now();
  };
  const failed = () => {
    if (cachedProfile === entry) cachedProfile = null;
  };
  entry.stacks.then(received, failed);
  return entry.stacks;
}

/** Only the latest request is answered, because typing a filter sends one request per letter. */
async function answer({ id, request, age }: WorkerRequest): Promise<void> {
  latestId = id;
  await new Promise((resolve) => setTimeout(resolve));
  if (id !== latestId) return;
  let response: WorkerResponse;
  try {
    const stacks = await fetchProfile(request, age);
    if (id !== latestId) return;
    response = { id, result: computeView(stacks, request) };
  } catch (failure) {
    response = { id, error: failure instanceof Error ? failure.message : String(failure) };
  }
  postMessage(response, { transfer: response.result ? transferables(response.result) : [] });
}

addEventListener("message", (event: MessageEvent<WorkerRequest>) => void answer(event.data));
