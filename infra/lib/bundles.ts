import { FileSystem } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import { chmodSync, closeSync, copyFileSync, cpSync, existsSync, openSync, readSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';

import type { CommonSettings } from './common-settings';
import { functionsFor, IS_PACKAGE } from './package-files';
import { RedeliverPropsError } from './props-error';

/** Readable and executable for all users ("Troubleshoot deployment issues in Lambda"). */
const RUN_BY_ALL = 0o555;

/** `e_machine` of an ELF file ("ELF-64 Object File Format"; "ELF for the Arm 64-bit Architecture"). */
const MACHINES = new Map([
  [0x3e, lambda.Architecture.X86_64],
  [0xb7, lambda.Architecture.ARM_64],
]);

/** One of our functions, or a user's bundle. */
export type Program =
  | 'message-processor'
  | 'failed-message-processor'
  | 'final-dlq-annotator'
  | 'async-retry-handler'
  | { readonly bundle: string };

/** The settings that determine the location of our programs. */
type ProgramSource = Pick<CommonSettings, 'architecture' | 'bundles'>;

/** The paths of the user's schemas, by file name in the package. */
type Schemas = Readonly<Record<string, string>>;

/**
 * Returns the deployment package of a program, with the user's schemas: only our program, or all files of the user's
 * bundle.
 *
 * @throws RedeliverPropsError if the program is missing, is built for another architecture, or is not executable.
 */
export function codeOf(program: Program, from: ProgramSource, schemas: Schemas): lambda.Code {
  const ours = typeof program === 'string';
  const { directory, bootstrap, canRun } = checkProgram(program, from);
  if (canRun && Object.keys(schemas).length === 0) {
    return lambda.Code.fromAsset(directory, ours ? { exclude: ['*', '!bootstrap'] } : {});
  }
  const staged = stagingDirectory();
  cpSync(ours ? bootstrap : directory, ours ? join(staged, 'bootstrap') : staged, { recursive: true });
  // The umask at install time may have removed permissions.
  chmodSync(join(staged, 'bootstrap'), 0o755);
  return withSchemas(staged, schemas);
}

/**
 * Returns the code of a layer with the message-processor's program and the user's schemas.
 *
 * @param file the program's name in the layer.
 * @param reader the function that gets the layer, as named in the props.
 * @throws RedeliverPropsError like {@link codeOf}.
 */
export function layerCodeOf(file: string, reader: string, from: ProgramSource, schemas: Schemas): lambda.Code {
  const { bootstrap } = checkProgram('message-processor', from, reader);
  const staged = stagingDirectory();
  copyFileSync(bootstrap, join(staged, file));
  chmodSync(join(staged, file), 0o755);
  return withSchemas(staged, schemas);
}

/** Adds the schemas to a staged program. */
function withSchemas(staged: string, schemas: Schemas): lambda.Code {
  for (const [file, path] of Object.entries(schemas)) {
    copyFileSync(path, join(staged, file));
    chmodSync(join(staged, file), 0o644);
  }
  return lambda.Code.fromAsset(staged);
}

/**
 * Checks that a program exists and is built for the architecture. If `canRun` is false, the program must be copied and
 * made executable.
 *
 * @param reader the user's function, if it determines the architecture.
 */
function checkProgram(
  program: Program,
  { architecture, bundles }: ProgramSource,
  reader?: string,
): { readonly directory: string; readonly bootstrap: string; readonly canRun: boolean } {
  const ours = typeof program === 'string';
  const directory = ours ? join(bundles ?? functionsFor(architecture.name), program) : program.bundle;
  const isPackaged = ours && bundles === undefined && IS_PACKAGE;
  const bootstrap = join(directory, 'bootstrap');
  const build = `cargo xtask bundle${architecture.name === lambda.Architecture.X86_64.name ? ' --x86-64' : ''}`;
  if (!existsSync(bootstrap)) {
    throw new RedeliverPropsError([isPackaged ? notPackagedMessage(architecture, reader) : `${bootstrap} is missing; build it with \`${build}\`.`]);
  }
  const built = MACHINES.get(readElfMachine(bootstrap));
  if (built?.name !== architecture.name) {
    throw new RedeliverPropsError([
      `${bootstrap} is built for ${built?.name ?? 'no Lambda architecture'}, but ${reader ? `${reader} runs` : 'the functions run'} on ` +
        `${architecture.name}; build it with \`${build}\`, or set ${reader ? "the function's" : 'the'} architecture to match.`,
    ]);
  }
  // A zip keeps file modes, and Lambda runs the program as a different user.
  const mode = statSync(bootstrap).mode & 0o777;
  const canRun = (mode & RUN_BY_ALL) === RUN_BY_ALL;
  if (!canRun && !isPackaged) {
    throw new RedeliverPropsError([
      `${bootstrap} has mode ${mode.toString(8)}, so Lambda cannot start it; run \`chmod 755 ${bootstrap}\`.`,
    ]);
  }
  return { directory, bootstrap, canRun };
}

/** Returns the error for a package that contains only the programs of the other architecture. */
function notPackagedMessage(architecture: lambda.Architecture, reader: string | undefined): string {
  const there = [lambda.Architecture.ARM_64, lambda.Architecture.X86_64].filter(({ name }) => existsSync(functionsFor(name)));
  const instead = there.map(({ name }) => (name === 'arm64' ? 'ARM_64' : 'X86_64'));
  const wanted = reader ? `${reader} runs on ${architecture.name}` : `architecture is ${architecture.name}${architecture.name === 'arm64' ? ' (the default)' : ''}`;
  return (
    `${wanted}, but the functions in this package are built for ${there.map(({ name }) => name).join()} only; set ` +
    `${reader ? "the function's " : ''}architecture to lambda.Architecture.${instead.join()}, or use a package with both.`
  );
}

const stagingDirectories: string[] = [];

/** Creates a directory that is removed when the process exits. */
function stagingDirectory(): string {
  if (stagingDirectories.length === 0) {
    process.once('exit', () => stagingDirectories.forEach((each) => rmSync(each, { recursive: true, force: true })));
  }
  const directory = FileSystem.mkdtemp('redeliver-bundle-');
  stagingDirectories.push(directory);
  return directory;
}

/** Returns the machine type of an ELF file, or 0 for any other file. */
function readElfMachine(path: string): number {
  const header = Buffer.alloc(20);
  const file = openSync(path, 'r');
  try {
    readSync(file, header);
  } finally {
    closeSync(file);
  }
  return header.toString('latin1', 0, 4) === '\x7fELF' ? header.readUInt16LE(18) : 0;
}
