// Where each of doctor's findings (tool/doctor/checks.go) is visible: the view, and the kind of profile and its values
// if applicable.

export const FINDING_VIEWS: Record<string, { view: string; kind?: string; type?: string }> = {
  growth: { view: "growth" },
  "purge-storm": { view: "kernel" },
  fragmentation: { view: "map" },
  "only-frees": { view: "functions", kind: "remote" },
  hoarding: { view: "sizes" },
  "huge-pages": { view: "map" },
  "realloc-copies": { view: "functions", kind: "churn", type: "moved_space" },
  "over-alignment": { view: "functions", kind: "churn", type: "alloc_space" },
  "memory-limit": { view: "overview" },
  mappings: { view: "kernel" },
  "samples-lost": { view: "functions" },
};

/** The function in a place "name file:line". */
export function functionAt(location: string): string {
  return location.replace(/ [^ ]*:\d+$/, "");
}
