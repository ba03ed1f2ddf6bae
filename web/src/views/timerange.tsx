// The time range of a folder. It applies to the list of moments, the charts and the growth.
import type { Point } from "../answers.ts";
import type { Change, ViewState } from "../state.ts";

/** The format of the input: local time without a zone. */
function local(ms: number): string {
  return new Date(ms - 60_000 * new Date(ms).getTimezoneOffset()).toISOString().slice(0, 19);
}

export function TimeRange({ points, shown, change }: { points: Point[]; shown: ViewState; change: Change }) {
  const input = (name: "from" | "until", defaultTime: number | undefined) => (
    <label>
      {name}{" "}
      <input
        type="datetime-local"
        step="1"
        value={shown[name] || defaultTime ? local(shown[name] || defaultTime!) : ""}
        onChange={(event) => change({ [name]: new Date(event.currentTarget.value).getTime() || 0 })}
      />
    </label>
  );
  return (
    <div class="bar" role="group" aria-label="Time">
      {input("from", points[0]?.t)}
      {input("until", points[points.length - 1]?.t)}
      <button disabled={!shown.from && !shown.until} onClick={() => change({ from: 0, until: 0 })}>
        whole time
      </button>
    </div>
  );
}
