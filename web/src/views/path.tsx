// A stack in one line: where it was allocated, and by whom that was called. Each name leads to its callers.
import type { Change } from "../state.ts";

export function Path({ stack, change, most = 3 }: { stack: string[]; change: Change; most?: number }) {
  return (
    <span title={stack.join("\n")}>
      {stack.slice(0, most).map((name, i) => (
        <span key={i}>
          {i > 0 && <small> ← </small>}
          <button class="link" onClick={() => change({ view: "callers", function: name })}>{name}</button>
        </span>
      ))}
      {stack.length > most && <small> ← …</small>}
    </span>
  );
}
