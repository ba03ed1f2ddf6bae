// The program shapes.cc, running on seemalloc: starting it, sending it commands, querying it.
import { execFileSync, spawn } from "node:child_process";
import { readlinkSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { killAtEnd, root, tempDir, tool, waitForSocket } from "./harness.mjs";

const out = process.env.SEEMALLOC_OUT ?? join(root, "out");
let binary = "";

/** Starts it; runStep() sends it a command and waits until it is done. */
export async function startShapes(sample, ...flags) {
  if (!binary) {
    binary = join(tempDir, "shapes");
    execFileSync("c++", ["-O1", "-g", join(root, "tests/web/shapes.cc"), "-o", binary, "-pthread"]);
  }
  const command = ["run", "--sample", sample, "--lib", join(out, "lib"), ...flags, "--", binary];
  const child = killAtEnd(spawn(tool, command, { stdio: ["pipe", "pipe", "inherit"] }));
  let text = "";
  let received = () => {};
  child.stdout.on("data", (data) => {
    text += data;
    received();
  });
  const line = async (want) => {
    while (!text.includes(want + "\n")) await new Promise((resolve) => (received = resolve));
    text = "";
  };
  await line("ready");
  await waitForSocket(child.pid);
  return {
    pid: String(child.pid),
    runStep: async (step) => {
      child.stdin.write(step);
      await line(step);
    },
  };
}

/** The control socket's answer to a line, after proving that this user may inspect the process (core/api/service/control.h). */
export async function controlCommand(pid, command) {
  const path = join("/tmp", `seemalloc-${process.getuid()}`, `${pid}.sock`);
  const socket = connect(path);
  let received = Buffer.alloc(0);
  let onData = () => {};
  socket.on("data", (data) => {
    received = Buffer.concat([received, data]);
    onData();
  });
  const answerTo = (line) =>
    new Promise((resolve, reject) => {
      socket.on("error", reject);
      socket.on("close", () => reject(new Error(`closed without an answer to ${line}`)));
      onData = () => {
        const end = received.indexOf("\n");
        if (end < 0) return;
        const head = received.subarray(0, end).toString();
        if (!head.startsWith("ok ")) return reject(new Error(head));
        const length = Number(head.replace("ok ", ""));
        if (received.length < end + 1 + length) return;
        const answer = received.subarray(end + 1, end + 1 + length).toString();
        received = received.subarray(end + 1 + length);
        resolve(answer);
      };
      socket.write(line + "\n");
    });
  try {
    const name = readlinkSync(`/proc/${pid}/fd/${await answerTo("prove")}`);
    await answerTo("prove " + name.replace("/memfd:seemalloc:", "").replace(" (deleted)", ""));
    return await answerTo(command);
  } finally {
    socket.end();
  }
}

/** An answer of lines of JSON. */
export async function controlCommandLines(pid, command) {
  return (await controlCommand(pid, command))
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
}
