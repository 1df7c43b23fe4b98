import { Envelope } from './choices';
import type { Given } from './given';
import { schemaProblems } from './schemas';

/** What says which messages are taken. */
export type MessageProps = Pick<
  Given,
  'dataSchema' | 'envelope' | 'messageIdAttribute' | 'messageIdPointer' | 'bodySchema'
>;

/** The names of a user's schemas in a bundle or a layer; our functions run in the bundle's directory. */
const DATA_SCHEMA_FILE = 'data.schema.json';
const BODY_SCHEMA_FILE = 'body.schema.json';
/** What only messages without an envelope have. */
const OF_PLAIN_MESSAGES = ['messageIdAttribute', 'messageIdPointer', 'bodySchema'] as const;
/** Attributes that redeliver itself writes. */
const RESERVED = ['Failure', 'Redeliver'];

/** The schemas that go into a function's package: the file's name there, and its path here. */
export function schemaFiles({ dataSchema, bodySchema }: MessageProps): Readonly<Record<string, string>> {
  return {
    ...(dataSchema !== undefined && { [DATA_SCHEMA_FILE]: dataSchema }),
    ...(bodySchema !== undefined && { [BODY_SCHEMA_FILE]: bodySchema }),
  };
}

/**
 * The same for each function that reads messages.
 *
 * @param directory where the schemas are, unless the function runs there.
 */
export function messageEnvironment(props: MessageProps, directory = ''): Record<string, string> {
  const { envelope, messageIdAttribute, messageIdPointer } = props;
  return {
    ...(props.dataSchema !== undefined && { DATA_SCHEMA_PATH: directory + DATA_SCHEMA_FILE }),
    ...(envelope !== undefined && { ENVELOPE: envelope }),
    ...(messageIdAttribute !== undefined && { MESSAGE_ID_ATTRIBUTE: messageIdAttribute }),
    ...(messageIdPointer !== undefined && { MESSAGE_ID_POINTER: messageIdPointer }),
    ...(props.bodySchema !== undefined && { BODY_SCHEMA_PATH: directory + BODY_SCHEMA_FILE }),
  };
}

/** What is wrong with them, a sentence each. */
export function messageProblems(props: MessageProps): string[] {
  const { dataSchema, bodySchema, envelope, messageIdAttribute, messageIdPointer } = props;
  const without = OF_PLAIN_MESSAGES.filter((name) => envelope !== Envelope.OPTIONAL && props[name] !== undefined);
  return [
    ...(dataSchema === undefined ? [] : schemaProblems('dataSchema', dataSchema)),
    ...without.map((name) => `${name} is for messages without an envelope; set envelope: Envelope.OPTIONAL, or remove it.`),
    ...(bodySchema === undefined ? [] : schemaProblems('bodySchema', bodySchema)),
    ...(messageIdAttribute === undefined ? [] : attributeProblems(messageIdAttribute)),
    ...(messageIdPointer === undefined || isPointer(messageIdPointer)
      ? []
      : [`messageIdPointer is "${messageIdPointer}", which is no JSON Pointer to a member; it begins with /, such as /detail/id.`]),
  ];
}

/** "Amazon SQS message metadata". */
function attributeProblems(name: string): string[] {
  if (RESERVED.includes(name)) {
    return [`messageIdAttribute is ${name}, which redeliver itself writes; name an attribute of your producers.`];
  }
  const isTaken = /^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$/.test(name) && name.length <= 256 && !/^(aws|amazon)\./i.test(name);
  return isTaken
    ? []
    : [
        `messageIdAttribute is "${name}", which is not the name of a message attribute; it has letters, digits, _, - and single dots ` +
          'inside, at most 256, and does not begin with AWS. or Amazon.',
      ];
}

/** RFC 6901, without the pointer to the whole document. */
function isPointer(text: string): boolean {
  return /^(\/([^~/]|~[01])*)+$/u.test(text);
}
