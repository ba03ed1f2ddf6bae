// An input field that submits its text when editing is finished, and not at each letter. Until then it keeps the text,
// even if it is redrawn.
import { useState } from "preact/hooks";

interface Props {
  text: string; // its label
  help: string;
  value: string;
  bad: boolean;
  width: number; // letters
  set: (value: string) => void;
  example?: string;
  names?: string[]; // suggestions
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

/** Whether the answer rejects this value: such an error starts with the name and the value. */
export function isRefused(name: string, value: string, problem: string): boolean {
  return value !== "" && problem.startsWith(`${name}=${value}:`);
}
