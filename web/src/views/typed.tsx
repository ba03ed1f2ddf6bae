// A field whose text is asked for when it is done, not for each letter; until then it is kept here, whatever is drawn again.
import { useState } from "preact/hooks";

interface Props {
  text: string; // beside it
  help: string;
  value: string;
  bad: boolean;
  width: number; // letters
  set: (value: string) => void;
  example?: string;
  names?: string[]; // offered
}

export function Typed({ text, help, value, bad, width, set, example, names }: Props) {
  const [typed, setTyped] = useState<string | null>(null);
  const list = names && `${text}-names`;
  return (
    <label title={help}>
      {text} <input value={typed ?? value} size={width} placeholder={example} list={list} aria-invalid={bad && typed === null} onInput={(event) => setTyped(event.currentTarget.value)}
        onChange={(event) => {
          set(event.currentTarget.value);
          setTyped(null);
        }} />
      {names && <datalist id={list}>{names.map((name) => <option key={name} value={name} />)}</datalist>}
    </label>
  );
}

/** Whoever was asked says that it cannot read this: the answer begins with it. */
export function isRefused(name: string, value: string, problem: string): boolean {
  return value !== "" && problem.startsWith(`${name}=${value}:`);
}
