// The stored moments as a line of live bytes. A drag selects two moments to compare. Both can be moved with the mouse
// or the arrow keys.
import { useRef, useState } from "preact/hooks";
import type { Moment } from "../answers.ts";
import { bytes, clock } from "../model/format.ts";
import { nearestIndex, nearestPair, relativePositions } from "../model/timeline.ts";
import type { Change, ViewState } from "../state.ts";

const GRAB_DISTANCE = 9; // px from a handle within which it is selected
const [WIDTH, HEIGHT] = [1000, 40]; // of the picture, which is scaled

interface Handle {
  name: string;
  index: number; // index of the moment; -1: none
  min: number;
  set: (index: number) => void;
}

function Slider({ handle, moments, positions }: { handle: Handle; moments: Moment[]; positions: number[] }) {
  const { name, index, min, set } = handle;
  const key = (event: KeyboardEvent) => {
    const step: Record<string, number> = {
      ArrowLeft: index - 1,
      ArrowDown: index - 1,
      ArrowRight: index + 1,
      ArrowUp: index + 1,
      PageDown: index - 10,
      PageUp: index + 10,
      Home: min,
      End: moments.length - 1,
    };
    const next = step[event.key];
    if (next === undefined) return;
    event.preventDefault();
    set(Math.max(min, Math.min(moments.length - 1, next)));
  };
  const moment = moments[index];
  return (
    <span
      class={moment ? "handle" : "handle none"}
      style={{ left: `${100 * (positions[index] ?? 0)}%` }}
      role="slider"
      tabIndex={0}
      aria-label={name}
      aria-valuemin={min}
      aria-valuemax={moments.length - 1}
      aria-valuenow={index}
      aria-valuetext={moment ? `${clock(moment.t)}, ${bytes(moment.inuse)} in use` : "nothing"}
      onKeyDown={key}
    />
  );
}

export function TimeLine({ moments: all, shown, change }: { moments: Moment[]; shown: ViewState; change: Change }) {
  const strip = useRef<HTMLDivElement>(null);
  const [drag, setDrag] = useState<{ what: "range" | "base" | "at"; from: number; to: number } | null>(null);
  const moments = all.filter((moment) => moment.t > 0);
  const at = relativePositions(moments.map((moment) => moment.t));
  const last = moments.length - 1;
  if (moments.length < 2 || at[last] === at[0]) return null;
  const indexOf = (id: number) => moments.findIndex((moment) => moment.id === id);
  const now = shown.at === 0 ? last : indexOf(shown.at);
  const base = shown.base < 0 ? -1 : indexOf(shown.base);
  // The last moment is selected as 0, so that the view follows new ones.
  const idOf = (index: number) => (index === last ? 0 : moments[index]!.id);
  const handles: Handle[] = [
    {
      name: "earlier moment",
      index: base,
      min: -1,
      set: (index) => change({ base: index < 0 ? -1 : moments[index]!.id }),
    },
    { name: "later moment", index: now, min: 0, set: (index) => change({ at: idOf(index) }) },
  ];

  const pointerPosition = (event: PointerEvent) => {
    const box = strip.current!.getBoundingClientRect();
    return Math.max(0, Math.min(1, (event.clientX - box.left) / box.width));
  };
  const down = (event: PointerEvent) => {
    if (event.button !== 0) return;
    const x = pointerPosition(event);
    const near = GRAB_DISTANCE / strip.current!.clientWidth;
    const isNear = (index: number) => index >= 0 && Math.abs(at[index]! - x) <= near;
    strip.current!.setPointerCapture(event.pointerId);
    setDrag({ what: isNear(base) ? "base" : base >= 0 && isNear(now) ? "at" : "range", from: x, to: x });
  };
  const move = (event: PointerEvent) => drag && setDrag({ ...drag, to: pointerPosition(event) });
  const up = () => {
    if (!drag) return;
    setDrag(null);
    if (drag.what !== "range") return void handles[drag.what === "base" ? 0 : 1]!.set(nearestIndex(at, drag.to));
    const [one, other] = nearestPair(at, drag.from, drag.to);
    change(one === other ? { at: idOf(one) } : { base: moments[one]!.id, at: idOf(other) });
  };

  // The selection during a drag.
  const dragged = drag && nearestPair(at, drag.from, drag.to);
  const begin = !drag
    ? base
    : drag.what === "base"
      ? nearestIndex(at, drag.to)
      : drag.what === "at"
        ? base
        : dragged![0];
  const end = !drag ? now : drag.what === "at" ? nearestIndex(at, drag.to) : drag.what === "base" ? now : dragged![1];
  const [left, right] =
    begin >= 0 && end >= 0 ? [Math.min(at[begin]!, at[end]!), Math.max(at[begin]!, at[end]!)] : [0, 0];
  const most = Math.max(1, ...moments.map((moment) => moment.inuse));
  const points = moments.map(
    (moment, i) => `${(WIDTH * at[i]!).toFixed(1)},${(HEIGHT - 1 - ((HEIGHT - 4) * moment.inuse) / most).toFixed(1)}`,
  );
  const text =
    begin >= 0 && end >= 0 && begin !== end
      ? `${clock(moments[end]!.t)} compared with ${clock(moments[begin]!.t)}: ${bytes(moments[end]!.inuse)} after ${bytes(moments[begin]!.inuse)} in use`
      : "drag over a time to see the changes in it";
  return (
    <div class="timeline" role="group" aria-label="Time line">
      <div
        class="strip"
        ref={strip}
        onPointerDown={down}
        onPointerMove={move}
        onPointerUp={up}
        onPointerCancel={() => setDrag(null)}
      >
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
          <polygon points={`0,${HEIGHT} ${points.join(" ")} ${WIDTH},${HEIGHT}`} />
        </svg>
        <span class="selected" style={{ left: `${100 * left}%`, width: `${100 * (right - left)}%` }} />
        {handles.map((handle) => (
          <Slider key={handle.name} handle={handle} moments={moments} positions={at} />
        ))}
      </div>
      <p>
        <span>{clock(moments[0]!.t)}</span> <span class="selection">{text}</span> <span>{clock(moments[last]!.t)}</span>
      </p>
    </div>
  );
}
