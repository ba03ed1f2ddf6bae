// A modal dialog. Escape and a click beside it close it, and the focus returns to where it was.
import { useEffect, useRef } from "preact/hooks";

interface Props {
  label: string;
  close: () => void; // called when it has been closed
  children: (dismiss: () => void) => preact.ComponentChildren;
}

export function Dialog({ label, close, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current!.showModal(), []);
  const dismiss = () => dialog.current!.close();
  return (
    <dialog
      ref={dialog}
      aria-label={label}
      onClose={close}
      onClick={(event) => event.target === event.currentTarget && dismiss()}
    >
      <div class="content">{children(dismiss)}</div>
    </dialog>
  );
}
