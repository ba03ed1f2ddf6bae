// Words with an explanation, shown on hover and on focus (also by a tap).

const WORDS: Record<string, string> = {
  flat: "What the function allocated itself.",
  cum: "Cumulative: what the function allocated itself, and what the functions that it called did.",
  live: "Blocks that the program holds, as far as they are resident. Bytes are by allocated size: a block counts with its whole size class, or whole pages.",
  "cached by threads": "Free blocks that threads keep ready, so that the next allocations cost nothing; and with purge_free pages that the system may take.",
  fragmentation: "Free blocks in spans that also hold live ones: resident memory that only requests of the same size can use.",
  estimated: "Exact where every page of a span is resident, or the missing ones are known to be free. Elsewhere live and free blocks lie side by side, and a missing page may be of either; of a heap of more than 8 GiB a part is looked at.",
  metadata: "The allocator's own records, and those of the profiler.",
  "not ours": "Resident memory of others: the program's code and data, stacks, its own mappings.",
  dirty: "Free pages that are resident; they go back to the system after the purge delay.",
  refault: "Memory that was used again shortly after it had been given back: giving it back did not pay.",
  span: "A run of pages cut into blocks of one size.",
  rounding: "Requests get a block of the next larger size class: what was not asked for of it is nobody's. Of live blocks, by the mean of all requests since the start.",
  requests: "Allocations since the start that got a block of this size, freed or not: estimated from samples.",
  refills: "How often a thread's list of free blocks was at its end, and it went to its heap for the next.",
  lost: "Calls that were overwritten before they were read: the process keeps the last 4,096.",
  reason: "What the allocator made the call for: growth, huge blocks, its records, memory that was free for long (decay), pressure …",
  place: "The first function outside of the allocator: what made it ask the kernel.",
  region: "2 MiB of address space, which spans of many sizes fill; the system may back it by one huge page.",
  "free in spans": "Free blocks between live ones, and what is left behind the last: only requests of the same size can use it. Without what has gone back; where nobody has written yet there is no memory, so what is resident of it (fragmentation) may be less.",
  "given back": "Parts of spans that no live block touches, whose memory has gone back to the system.",
  "huge page": "2 MiB of memory that the processor's address cache holds as one; part of it cannot go back without splitting it.",
  "who pins it": "Whose live block keeps the span: the oldest sampled one that lies there, or would if it had not been sampled.",
  "waits for": "How long the span has had free blocks without anything being handed out from it.",
  lifetime: "How long a block lived: from its allocation to its free.",
  what: "Spans: small (blocks of one size), sampled (blocks that the profiler looks at), large (one block). Current: a thread hands out from it; available: it has free blocks and waits; full; central: nobody's. Free pages: dirty have memory, lazy are the kernel's for the taking, purged and clean have none.",
  "handed out": "Blocks that are out, with free ones that threads keep ready: these are with the cached ones in Size classes.",
  cached: "Free blocks that threads keep ready, so that the next allocations cost nothing.",
  "free blocks": "Free blocks in spans, without those that threads keep ready.",
  "page faults": "A page of memory was touched that had none behind it, and the kernel gave it some: of new memory, or of what had gone back.",
  "given back to the system": "Memory that has gone back. Refaults: what of it was used again shortly after: giving it back did not pay.",
  "slow paths": "What the fast path of malloc and free cannot do. Refills: a thread had no free block of its own at hand and went to its heap. Remote frees: blocks sent back to the thread whose memory they are, by others that freed them. Lock waits: a thread waited for another in the allocator.",
  temporary: "Freed within 10 ms of their allocation: a buffer that is kept would save them.",
  "by another thread": "Freed by another thread than the one that allocated them: work for both.",
  "size class": "Requests are rounded up to one of about 100 sizes.",
};

const WIDTH = 300; // px, width of the box in style.css

/** Positions the box: below the word, or above it near the lower edge, and within the page. */
function place(event: FocusEvent) {
  const word = event.currentTarget as HTMLElement;
  const box = word.getBoundingClientRect();
  const isLow = box.bottom > innerHeight - 140;
  word.style.setProperty("--left", `${Math.max(8, Math.min(box.left, innerWidth - WIDTH - 8))}px`);
  word.style.setProperty("--top", `${isLow ? box.top : box.bottom}px`);
  word.style.setProperty("--up", isLow ? "-100%" : "0");
}

export function Word({ name, children }: { name: string; children?: preact.ComponentChildren }) {
  return <abbr title={WORDS[name]} data-says={WORDS[name]} tabIndex={0} onFocus={place}>{children ?? name}</abbr>;
}
