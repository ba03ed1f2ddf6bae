// Words that are explained where they stand: on hover and on focus.

const WORDS: Record<string, string> = {
  flat: "What the function allocated itself.",
  cum: "Cumulative: what the function allocated itself, and what the functions that it called did.",
  live: "Blocks that the program holds.",
  cached: "Free blocks and pages that are kept ready, so that the next allocations cost nothing.",
  fragmentation: "Free blocks in spans that also hold live ones: memory that nobody else can have.",
  metadata: "The allocator's own records, and those of the profiler.",
  "not ours": "Resident memory of others: the program's code and data, stacks, its own mappings.",
  dirty: "Free pages that are still backed by memory; they go back to the system after the purge delay.",
  refault: "Memory that was used again shortly after it had been given back: giving it back did not pay.",
  span: "A run of pages cut into blocks of one size.",
  refills: "How often a thread had no free block of its own at hand and went to its heap.",
  remote: "Blocks that were sent back to the thread whose memory they are, by others that freed them.",
  lost: "Calls that were overwritten before they were read: the process keeps the last 4,096.",
  reason: "What the allocator made the call for: growth, huge blocks, its records, memory that was free for long (decay), pressure …",
  place: "The first function outside of the allocator: what made it ask the kernel.",
  region: "2 MiB of address space, which spans of many sizes fill; the system may back it by one huge page.",
  "free in spans": "Free blocks between live ones, with memory behind them: only requests of the same size can use it. This is fragmentation.",
  "given back": "Parts of spans that no live block touches, whose memory has gone back to the system.",
  "huge page": "2 MiB of memory that the processor's address cache holds as one; part of it cannot go back without splitting it.",
  "who pins it": "Whose live block keeps the span: the oldest sampled one that lies there, or would if it had not been sampled.",
  "waits for": "How long the span has had free blocks without anything being handed out from it.",
  lifetime: "How long a block lived: from its allocation to its free.",
  temporary: "Freed within 10 ms of their allocation: a buffer that is kept would save them.",
  "by another thread": "Freed by another thread than the one that allocated them: work for both.",
  "size class": "Requests are rounded up to one of about 100 sizes.",
};

export function Word({ name, children }: { name: string; children?: preact.ComponentChildren }) {
  return <abbr title={WORDS[name]} data-says={WORDS[name]} tabIndex={0}>{children ?? name}</abbr>;
}
