// The stack filters for views that the server ranks: by functions, as in the views of a profile. The patterns are
// validated where they are applied, because the server's syntax differs from that of JavaScript.
import type { Change, ViewState } from "../state.ts";
import { isRejected, TextInput } from "./textinput.tsx";

const HELP = {
  focus: "Only stacks with a function that matches this regular expression",
  ignore: "No stacks with a function that matches",
};

/** The additional query parameters. */
export function filterQuery(shown: ViewState): string {
  return (["focus", "ignore", "module"] as const)
    .map((name) => (shown[name] ? `&${name}=${encodeURIComponent(shown[name])}` : ""))
    .join("");
}

/**
 * problem: the error in the answer. modules: the choices; undefined in a report, whose stacks have only names
 * here.
 */
export function StackFilter({
  shown,
  change,
  problem,
  modules,
}: {
  shown: ViewState;
  change: Change;
  problem: string;
  modules: string[] | undefined;
}) {
  return (
    <>
      {(["focus", "ignore"] as const).map((name) => (
        <TextInput
          key={name}
          text={name}
          help={HELP[name]}
          width={14}
          value={shown[name]}
          invalid={isRejected(name, shown[name], problem)}
          set={(text) => change({ [name]: text })}
        />
      ))}
      {modules && (
        <label title="Only stacks whose innermost function is of this module">
          module{" "}
          <select value={shown.module} onChange={(event) => change({ module: event.currentTarget.value })}>
            <option value="">all</option>
            {[...new Set([...modules, shown.module])].filter(Boolean).map((name) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
      )}
    </>
  );
}
