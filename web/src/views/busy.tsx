// Work that takes long: what it is, and that it still runs.

export function Busy({ children }: { children: preact.ComponentChildren }) {
  return (
    <p class="busy" role="status">
      <progress aria-hidden="true" /> {children} …
    </p>
  );
}
