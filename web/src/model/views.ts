// The views of the page, in groups by the question that they answer.
import type { State } from "../answers.ts";

export interface ViewGroup {
  name: string;
  question: string;
  views: Record<string, string>; // id in the address → name
}

export const VIEW_GROUPS: ViewGroup[] = [
  {
    name: "Summary",
    question: "What do I look at now?",
    views: { overview: "Overview", doctor: "Doctor" },
  },
  {
    name: "Who",
    question: "Which code holds the memory?",
    views: {
      flame: "Flame graph",
      functions: "Functions",
      graph: "Graph",
      callers: "Callers",
      tree: "Tree",
      source: "Source",
    },
  },
  {
    name: "Change",
    question: "What grows, and what comes and goes?",
    views: { growth: "Growth", changes: "Changes", lifetimes: "Lifetimes" },
  },
  {
    name: "Heap",
    question: "Where is the memory: in which regions, spans and sizes?",
    views: { map: "Heap map", sizes: "Size classes" },
  },
  {
    name: "System",
    question: "What does the allocator ask of the kernel, and which options has it?",
    views: { kernel: "Kernel", settings: "Settings" },
  },
];

/** The view that is shown for a name in the address, which may be anything: the overview for an unknown one. */
export function knownView(name: string): string {
  return VIEW_GROUPS.some((group) => Object.hasOwn(group.views, name)) ? name : "overview";
}

export function groupOf(view: string): ViewGroup {
  return VIEW_GROUPS.find((group) => Object.hasOwn(group.views, knownView(view)))!;
}

// These views query a process.
const PROCESS_VIEWS = ["doctor", "lifetimes", "map", "sizes", "kernel", "settings"];

/** Why a view has nothing to show, and what to do; "": it has something. */
export function missingData(view: string, state: State): string {
  if (!state.process && PROCESS_VIEWS.includes(view))
    return "Saved profiles do not contain this. The page of a running process shows it: seemalloc web PID.";
  if (state.live || state.ended || state.report) return "";
  if (view === "map" && !state.stored?.map)
    return "This folder has no heap map: the tool takes one a minute while the process runs, and older tools stored none.";
  if (view === "doctor" && !state.stored?.doctor)
    return "This folder has no findings: doctor looks when Overview or Doctor is open while the process runs.";
  return "";
}
