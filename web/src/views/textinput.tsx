// An input field that submits its text when editing is finished, and not at each letter. Until then it keeps the text,
// even if it is redrawn.
import { useState } from "preact/hooks";

interface Props {
  text: string; // its label
  help: string;
  value: string;
  invalid: boolean;
  width: number; // letters
  set: (value: string) => void;
  example?: string;
  names?: string[]; // suggestions
}

export function TextInput({ text, help, value, invalid, width, set, example, names }: Props) {
  const [draft, setDraft] = useState<string | null>(null);
  const list = names && `${text}-names`;
  return (
    <label title={help}>
      {text}{" "}
      <input
        value={draft ?? value}
        size={width}
        placeholder={example}
        list={list}
        aria-invalid={invalid && draft === null}
        onInput={(event) => setDraft(event.currentTarget.value)}
        onChange={(event) => {
          set(event.currentTarget.value);
          setDraft(null);
        }}
      />
      {names && (
        <datalist id={list}>
          {names.map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
      )}
    </label>
  );
}

/** Whether the answer rejects this value: such an error starts with the name and the value. */
export function isRejected(name: string, value: string, problem: string): boolean {
  return value !== "" && problem.startsWith(`${name}=${value}:`);
}
