// A function's source with the value of each line. If the source is not on this machine, it shows the line numbers with
// their values.
import { useState } from "preact/hooks";
import type { Source as Text } from "../answers.ts";
import { api } from "../api.ts";
import { amount, clock } from "../model/format.ts";
import { excerpt, type FileLines, type LineValues } from "../model/source.ts";
import { useRequest } from "../state.ts";
import type { ViewProps } from "../viewprops.ts";
import { Busy } from "./busy.tsx";
import { Term } from "./term.tsx";

export function Source({
  about: { unit, isComparison, t },
  data: { name, names, parts },
  change,
}: ViewProps<"source">) {
  return (
    <section>
      <div class="bar">
        <label>
          function{" "}
          <input
            list="functions"
            value={name}
            size={50}
            onChange={(event) => change({ function: event.currentTarget.value })}
          />
        </label>
        <datalist id="functions">
          {names.map((one) => (
            <option key={one} value={one} />
          ))}
        </datalist>
        <button disabled={parts.length === 0} onClick={() => change({ view: "callers", function: name })}>
          callers of it
        </button>
      </div>
      {parts.length === 0 && (
        <p class="note">
          {name ? `No stack has ${name}.` : "No function here has a file and lines: was the program compiled with -g?"}
        </p>
      )}
      {parts.map((part) => (
        <FileSource key={part.file} part={part} name={name} unit={unit} isComparison={isComparison} takenAt={t} />
      ))}
    </section>
  );
}

function FileSource({
  part,
  name,
  unit,
  isComparison,
  takenAt,
}: {
  part: FileLines;
  name: string;
  unit: string;
  isComparison: boolean;
  takenAt: number;
}) {
  const [whole, setWhole] = useState(false);
  const { value: text, problem } = useRequest<Text | null>(
    () => (part.file ? api.source(part.file) : Promise.resolve(null)),
    0,
    [part.file],
  );
  const show = (value: number, base: number) =>
    value === 0 && base === 0 ? "" : isComparison ? amount(value - base, unit, true) : amount(value, unit);
  const cells = (sum: LineValues | undefined) => [
    <td>{sum && show(sum.flat, sum.flatBase)}</td>,
    <td>{sum && show(sum.cum, sum.cumBase)}</td>,
  ];
  const numbers = [...part.lines.keys()].sort((a, b) => a - b);
  const { from, to } = excerpt(part, text?.lines.length ?? 0, whole);
  const rows = text ? Array.from({ length: Math.max(0, to - from + 1) }, (_, i) => from + i) : [];
  // A line beyond the end of the file belongs to another version of it.
  const missingLines = text ? numbers.filter((number) => number > text.lines.length) : [];
  return (
    <>
      <h2>
        {name} in {part.file || "a file that the profile does not name"}:{" "}
        {show(part.total.flat, part.total.flatBase) || "0"} itself, {show(part.total.cum, part.total.cumBase) || "0"}{" "}
        including its callees
      </h2>
      {!part.file && <p class="note">The profile has no file and lines for it: was the program compiled with -g?</p>}
      {part.file && !text && !problem && (
        <p>
          <Busy>Reads the file</Busy>
        </p>
      )}
      {problem && (
        <p class="note" role="status">
          The source cannot be shown: {problem}.
        </p>
      )}
      {text && text.path !== part.file && <p class="note">Read from {text.path}.</p>}
      {text && takenAt > 0 && text.modified > takenAt && (
        <p class="note">
          The file was changed at {clock(text.modified)}, after the profile was taken: lines may have moved.
        </p>
      )}
      {missingLines.length > 0 && (
        <p class="note">The file ends before line {missingLines[0]}: it is another version.</p>
      )}
      <table class="figures source" aria-label={`Source of ${name}`}>
        <thead>
          <tr>
            <th scope="col">
              <Term name="flat" />
            </th>
            <th scope="col">
              <Term name="cum" />
            </th>
            <th scope="col">line</th>
            {text && <th scope="col">source</th>}
          </tr>
        </thead>
        <tbody>
          {rows.map((number) => (
            <tr key={number} class={part.lines.has(number) ? "has-value" : undefined}>
              {cells(part.lines.get(number))}
              <td>{number}</td>
              <td class="name">
                <code>{text!.lines[number - 1] || " "}</code>
              </td>
            </tr>
          ))}
          {(text ? missingLines : numbers).map((number) => (
            <tr key={`n${number}`} class="has-value">
              {cells(part.lines.get(number))}
              <td>{number || "?"}</td>
              {text && <td class="name" />}
            </tr>
          ))}
        </tbody>
      </table>
      {text && (
        <p>
          <button onClick={() => setWhole(!whole)}>
            {whole ? "the function only" : `all ${text.lines.length} lines of the file`}
          </button>
        </p>
      )}
    </>
  );
}
