// The commands of the palette, and those that match what is typed.

export interface Command {
  name: string;
  group: string;
  help?: string;
  run: () => void | Promise<void>;
}

/** The commands with all typed words in their name or group. Those whose name begins with the text come first. */
export function findCommands(commands: Command[], text: string): Command[] {
  const typed = text.trim().toLowerCase();
  const words = typed.split(/\s+/);
  const found = commands.filter(({ name, group }) => {
    const all = `${group} ${name}`.toLowerCase();
    return words.every((word) => all.includes(word));
  });
  const begins = (command: Command) => command.name.toLowerCase().startsWith(typed);
  return [...found.filter(begins), ...found.filter((command) => !begins(command))];
}
