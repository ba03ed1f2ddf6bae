// One function with its callers and callees (sandwich view).
import { amount } from "../model/format.ts";
import type { ViewProps } from "../viewprops.ts";
import { FlameGraph } from "./flame.tsx";

export function Callers({
  about,
  data: { name, names, value, callers, callees },
  shown,
  change,
}: ViewProps<"callers">) {
  const rest = { about, change, fixed: true };
  return (
    <section>
      <div class="bar">
        <label>
          function{" "}
          <input
            list="functions"
            value={shown.function}
            size={50}
            onChange={(event) => change({ function: event.currentTarget.value })}
          />
        </label>
        <button disabled={!callers} onClick={() => change({ view: "source", function: name })}>
          source of it
        </button>
        <datalist id="functions">
          {names.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
      </div>
      {!callers || !callees ? (
        <p class="note">
          {name ? `No stack has ${name}.` : "Choose a function, here or by a click in a table or a picture."}
        </p>
      ) : (
        <>
          <h2>
            {name}: {amount(value, about.unit)}
          </h2>
          <h3>called by</h3>
          <FlameGraph {...rest} data={callers} shown={{ ...shown, inverted: true }} />
          <h3>calls</h3>
          <FlameGraph {...rest} data={callees} shown={{ ...shown, inverted: false }} />
        </>
      )}
    </section>
  );
}
