// Work that takes long: what it is, and that it still runs. It appears after a moment (style.css), so that fast answers do
// not flicker.

export function Busy({ children }: { children: preact.ComponentChildren }) {
  return (
    <span class="busy" role="status">
      <progress aria-hidden="true" /> {children} …
    </span>
  );
}
