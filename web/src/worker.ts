// The page's worker thread: it fetches profiles and computes the data of views (look.ts). The page calls it through
// looks.ts.
import type { Stacks } from "./answers.ts";
import { api } from "./api.ts";
import { type Look, type Question, buffersOf, lookAt } from "./look.ts";

export interface Asked {
  id: number;
  question: Question;
  age: number; // ms: maximum age of the profile
}

export interface Answered {
  id: number;
  look?: Look;
  problem?: string;
}

// The last profile, because most questions are about the same one.
let kept: { key: string; stacks: Promise<Stacks>; came: number } | null = null;
let newest = 0;

function profile({ kind, at, base, rows, follows, round }: Question, age: number): Promise<Stacks> {
  const key = JSON.stringify([kind, at, base, rows, follows, round]);
  if (kept?.key === key && Date.now() - kept.came <= age) return kept.stacks;
  const one = { key, stacks: api.stacks(kind, at, base, rows), came: Infinity };
  kept = one;
  one.stacks.then(() => (one.came = Date.now()), () => kept === one && (kept = null));
  return one.stacks;
}

/** Only the latest question is answered, because typing a filter sends one question per letter. */
async function answer({ id, question, age }: Asked): Promise<void> {
  newest = id;
  await new Promise((resolve) => setTimeout(resolve));
  if (id !== newest) return;
  let answered: Answered;
  try {
    const stacks = await profile(question, age);
    if (id !== newest) return;
    answered = { id, look: lookAt(stacks, question) };
  } catch (failure) {
    answered = { id, problem: failure instanceof Error ? failure.message : String(failure) };
  }
  postMessage(answered, { transfer: answered.look ? buffersOf(answered.look) : [] });
}

addEventListener("message", (event: MessageEvent<Asked>) => void answer(event.data));
