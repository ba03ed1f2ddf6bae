// The page's second thread: it fetches profiles and makes what views show of them (look.ts). The page asks by looks.ts.
import { type Stacks, api } from "./api.ts";
import { type Look, type Question, buffersOf, lookAt } from "./look.ts";

export interface Asked {
  id: number;
  question: Question;
  age: number; // ms: how old the profile may be
}

export interface Answered {
  id: number;
  look?: Look;
  problem?: string;
}

// The last profile: most questions are about the same one.
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

/** Only the newest question is answered: whoever types a filter asks once a letter. */
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
