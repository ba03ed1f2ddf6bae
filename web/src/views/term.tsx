// Words with an explanation, shown on hover and on focus (also by a tap).

const DEFINITIONS: Record<string, string> = {
  flat: "What the function allocated itself.",
  cum: "Cumulative: the allocations of the function and of its callees.",
  live: "Blocks that the program has allocated and not freed, as far as they are resident. Bytes are by allocated size: a block counts with its whole size class, or whole pages.",
  "cached by threads":
    "Free blocks in the free lists of threads, which make the next allocations fast; with purge_free also pages that the kernel may reclaim.",
  fragmentation:
    "Free blocks in spans that also hold live ones: resident memory that only requests of the same size can use.",
  estimated:
    "Exact where every page of a span is resident, or the missing ones are known to be free. Elsewhere live and free blocks are side by side, and a missing page may belong to either; of a heap above 8 GiB only a part is checked.",
  metadata: "The metadata of the allocator and of the profiler.",
  "not ours": "Resident memory not allocated by seemalloc: the program's code and data, stacks, its own mappings.",
  dirty: "Free pages that are resident; they are returned to the OS after the purge delay.",
  refault: "Memory that was reused shortly after it was purged: the purge did not pay off.",
  span: "A run of pages cut into blocks of one size.",
  "internal fragmentation":
    "Allocated bytes beyond the requested ones: a request is rounded up to a size class, or to whole pages. Estimated for live blocks from the mean of all requests since the start.",
  requests: "Allocations since the start that got a block of this size, freed or not: estimated from samples.",
  refills: "How often a thread's free list was empty, and the thread refilled it from its heap.",
  lost: "Calls that were overwritten before they were read: the process keeps the last 4,096.",
  reason:
    "Why the allocator made the call: growth, huge blocks, its metadata, memory that was free for long (decay), pressure …",
  place: "The first function outside the allocator: the cause of the call.",
  region: "2 MiB of address space that holds spans of many sizes; the kernel may back it with one huge page.",
  "free in spans":
    "Free blocks between live ones, and the unused end of a span: only requests of the same size can use them. Excludes purged holes. Parts that were never written have no memory, so the resident part (fragmentation) may be smaller.",
  purged: "Parts of spans that no live block touches, with their memory returned to the OS.",
  "huge page":
    "2 MiB of memory with a single entry in the processor's address cache; a part of it cannot be returned without splitting it.",
  "pinned by":
    "The stack of the live block that keeps the span: the oldest sampled block that is in it, or would be if it were not sampled.",
  "idle for": "How long the span has had free blocks without an allocation from it.",
  lifetime: "How long a block lived: from its allocation to its free.",
  what: "Spans: small (blocks of one size), sampled (blocks that the profiler tracks), large (one block). Current: a thread allocates from it; available: it has free blocks; full; central: owned by no thread. Free pages: dirty ones have memory, lazy ones may be reclaimed by the kernel, purged and clean ones have none.",
  "live blocks":
    "Live blocks, including free blocks in the free lists of threads, which are counted as cached in Size classes.",
  cached: "Free blocks in the free lists of threads, which make the next allocations fast.",
  "free blocks": "Free blocks in spans, except those in the free lists of threads.",
  "page faults":
    "A page without memory was touched, and the kernel provided memory for it: a new page, or one that had been purged.",
  "returned to the OS":
    "Purged memory. Refaults: purged memory that was reused shortly after: the purge did not pay off.",
  "slow paths":
    "Work outside the fast paths of malloc and free. Refills: a thread's free list was empty, and the thread refilled it from its heap. Remote frees: blocks that were freed by another thread and returned to the thread that owns their memory. Lock waits: a thread waited for another one in the allocator.",
  temporary: "Freed within 10 ms of their allocation: a reused buffer would avoid them.",
  "by another thread": "Freed by a thread other than the one that allocated them: work for both threads.",
  "size class": "Requests are rounded up to one of about 100 sizes.",
};

const WIDTH = 300; // px, width of the box in style.css

/** Positions the box: below the word, or above it near the lower edge, and within the page. */
function positionBox(event: FocusEvent) {
  const word = event.currentTarget as HTMLElement;
  const box = word.getBoundingClientRect();
  const isLow = box.bottom > innerHeight - 140;
  word.style.setProperty("--left", `${Math.max(8, Math.min(box.left, innerWidth - WIDTH - 8))}px`);
  word.style.setProperty("--top", `${isLow ? box.top : box.bottom}px`);
  word.style.setProperty("--up", isLow ? "-100%" : "0");
}

export function Term({ name, children }: { name: string; children?: preact.ComponentChildren }) {
  return (
    <abbr title={DEFINITIONS[name]} data-definition={DEFINITIONS[name]} tabIndex={0} onFocus={positionBox}>
      {children ?? name}
    </abbr>
  );
}
