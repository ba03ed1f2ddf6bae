// A stack in one line: the allocating function and its callers, without the innermost intermediate functions. Each name
// links to its callers.
import type { Change } from "../state.ts";

export function Path({
  stack,
  inner = 0,
  change,
  maxNames = 3,
}: {
  stack: string[];
  inner?: number;
  change: Change;
  maxNames?: number;
}) {
  const names = stack.slice(inner);
  return (
    <span title={stack.join("\n")}>
      {names.slice(0, maxNames).map((name, i) => (
        <span key={i}>
          {i > 0 && <small> ← </small>}
          <button class="link" onClick={() => change({ view: "callers", function: name })}>
            {name}
          </button>
        </span>
      ))}
      {names.length > maxNames && <small> ← …</small>}
    </span>
  );
}
