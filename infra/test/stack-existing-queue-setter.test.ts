import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { temporaryDirectory } from './stack-support';

const ARN = 'arn:aws:sqs:eu-west-1:111122223333:orders';
const OURS = 'arn:aws:sqs:eu-west-1:111122223333:redeliver-prod-intermediate-dlq';
const THEIRS = 'arn:aws:sqs:eu-west-1:111122223333:orders-dlq';
const RUN = 'aws sqs set-queue-attributes --queue-url https://sqs/orders --attributes';

function redrive(deadLetterTargetArn: string, maxReceiveCount: number | string = 1): string {
  return JSON.stringify({ deadLetterTargetArn, maxReceiveCount });
}

/** SQS's defaults. */
const FRESH = { VisibilityTimeout: '30', MessageRetentionPeriod: '345600', MaximumMessageSize: '262144' };
/** A FIFO queue's DLQ is a FIFO queue. */
const ORDERED = { RedrivePolicy: redrive(OURS.replace('intermediate', 'source').concat('.fifo'), 1000) };
const WANTED = { VisibilityTimeout: '360', MessageRetentionPeriod: '604800', MaximumMessageSize: '1048576', RedrivePolicy: redrive(OURS) };

/** The scripted behavior of SQS, and the changes it received in `sets`. */
interface FakeQueue {
  attributes?: Record<string, string>;
  /** The number of requests that fail before one succeeds. */
  failures?: number;
  gone?: boolean;
  /** The number of reads after a change that still return the old state. */
  staleReads?: number;
  /** The change is made, but the response is lost. */
  lostAnswer?: boolean;
  sets?: Record<string, string>[];
}

/** A fake boto3 with one queue, with its state in a file. Time passes only during sleeps. */
const BOTO3 = `
import json
FILE = __file__ + ".json"
class QueueDoesNotExist(Exception): pass
class exceptions: QueueDoesNotExist = QueueDoesNotExist
class Client:
    exceptions = exceptions
    def get_queue_attributes(self, **arguments):
        with queue() as q:
            if q.get("staleReads", 0) > 0 and q["sets"]:
                q["staleReads"] -= 1
                return {"Attributes": q["before"]}
            return {"Attributes": q["attributes"]}
    def set_queue_attributes(self, QueueUrl, Attributes):
        assert QueueUrl == "https://sqs/orders"
        with queue() as q:
            q["before"] = dict(q["attributes"])
            q["sets"].append(Attributes)
            for name, value in Attributes.items():
                q["attributes"][name] = value
                if value == "": del q["attributes"][name]
            if q.pop("lostAnswer", None): q["late"] = True
        if q.get("late"): raise RuntimeError("no answer.")
class queue:
    def __enter__(self):
        self.state = json.load(open(FILE))
        if self.state.get("gone"): raise QueueDoesNotExist("gone.")
        if self.state.get("failures", 0) > 0:
            self.state["failures"] -= 1
            self.__exit__()
            raise RuntimeError("AccessDenied.")
        return self.state
    def __exit__(self, *_): json.dump(self.state, open(FILE, "w"))
def client(_): return Client()
`;

/** The function, with its pauses removed. */
const HANDLER = 'import json,sys,time,runpy; time.sleep = lambda _: None; runpy.run_path(sys.argv[1])["handler"](json.loads(sys.argv[2]), None)';

/** Runs the function once, as CloudFormation does; returns its response and the queue's state. */
async function run(queue: FakeQueue, request: Record<string, any>, wanted: Record<string, string> = {}): Promise<{ answer: any; queue: Required<FakeQueue> }> {
  const directory = temporaryDirectory();
  const state = join(directory, 'boto3.py.json');
  writeFileSync(join(directory, 'boto3.py'), BOTO3);
  writeFileSync(state, JSON.stringify({ attributes: FRESH, sets: [], ...queue }));
  let answer = '';
  const server = createServer((incoming, response) => {
    incoming.on('data', (chunk) => (answer += chunk)).on('end', () => response.end());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const event = {
    ResponseURL: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    StackId: 'stack',
    RequestId: 'request',
    LogicalResourceId: 'Set',
    ResourceProperties: { Step: 'set', QueueUrl: 'https://sqs/orders', QueueArn: ARN, HasKey: 'false', ...WANTED, ...wanted },
    ...request,
  };
  const source = join(__dirname, '../lib/existing-source-queue.py');
  const child = spawn('python3', ['-c', HANDLER, source, JSON.stringify(event)], {
    env: { ...process.env, PYTHONPATH: directory, STACK_ID: 'stack', URL_SUFFIX: 'amazonaws.com', AWS_ENDPOINT_URL: 'http://127.0.0.1:1' },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const [code] = await once(child, 'exit');
  server.close();
  assert.equal(code, 0);
  return { answer: JSON.parse(answer), queue: JSON.parse(readFileSync(state, 'utf8')) };
}

/** Returns true if the function refuses a request, as on AWS, where no variable names an emulator. */
function refuses(request: Record<string, string>): boolean {
  const directory = temporaryDirectory();
  writeFileSync(join(directory, 'boto3.py'), BOTO3);
  const source = join(__dirname, '../lib/existing-source-queue.py');
  const check = 'import json,sys,runpy; runpy.run_path(sys.argv[1])["check_sender"](json.loads(sys.argv[2]))';
  const { status, stderr } = spawnSync('python3', ['-c', check, source, JSON.stringify({ StackId: 'stack', ...request })], {
    env: { ...process.env, PYTHONPATH: directory, STACK_ID: 'stack', URL_SUFFIX: 'amazonaws.com' },
    encoding: 'utf8',
  });
  assert.ok(status === 0 || stderr.includes('PermissionError: not a request of CloudFormation for this stack'), stderr);
  return status !== 0;
}

const create = { RequestType: 'Create' };
const update = { RequestType: 'Update', PhysicalResourceId: ARN };
const remove = { RequestType: 'Delete', PhysicalResourceId: ARN };
const withoutPython = spawnSync('python3', ['--version']).status === 0 ? false : 'needs python3';

test("only CloudFormation's requests for its own stack are executed", { skip: withoutPython }, () => {
  const ours = 'https://cloudformation-custom-resource-response-euwest1.s3.eu-west-1.amazonaws.com/arn%3Aaws?X-Amz-Signature=1';
  const requests: Record<string, string>[] = [
    { ResponseURL: ours },
    { ResponseURL: ours, StackId: 'another' },
    { ResponseURL: ours.replace('https', 'http') },
    { ResponseURL: 'https://evil.example.com/cloudformation-custom-resource-response-euwest1.s3.amazonaws.com' },
    { ResponseURL: 'https://cloudformation-custom-resource-response-euwest1.s3.amazonaws.com.evil.example.com/' },
    { ResponseURL: 'https://cloudformation-custom-resource-response-euwest1.s3.amazonaws.com@evil.example.com/' },
    { ResponseURL: 'http://169.254.169.254/' },
    { ResponseURL: '' },
  ];
  assert.deepEqual(requests.map(refuses), [false, ...Array(7).fill(true)]);
});

describe('setting attributes', { skip: withoutPython }, () => {
  test('sets all missing attributes in one request', async () => {
    const { answer, queue } = await run({}, create);
    assert.deepEqual(answer, { StackId: 'stack', RequestId: 'request', LogicalResourceId: 'Set', PhysicalResourceId: ARN, Status: 'SUCCESS' });
    assert.deepEqual(queue.sets, [WANTED]);
  });

  test('changes nothing if no attribute is missing, for example on a second run', async () => {
    const first = await run({}, create);
    const { answer, queue } = await run({ attributes: first.queue.attributes }, create);
    assert.deepEqual([answer.Status, answer.PhysicalResourceId, queue.sets], ['SUCCESS', ARN, []]);
    // SQS may return the count as a string.
    assert.deepEqual((await run({ attributes: { ...WANTED, RedrivePolicy: redrive(OURS, '1') } }, create)).queue.sets, []);
  });

  test("also sets a FIFO queue, whose retention may equal its DLQ's", async () => {
    const fifo = { ...FRESH, FifoQueue: 'true', MessageRetentionPeriod: '1209600' };
    const { answer, queue } = await run({ attributes: fifo }, create, { ...ORDERED, MessageRetentionPeriod: '1209600' });
    assert.equal(answer.Status, 'SUCCESS', answer.Reason);
    assert.deepEqual(queue.sets, [{ VisibilityTimeout: '360', MaximumMessageSize: '1048576', ...ORDERED }]);
  });

  test('never lowers a value, which would delete, refuse or redeliver messages', async () => {
    const more = { VisibilityTimeout: '900', MessageRetentionPeriod: '1209599', MaximumMessageSize: '1048576' };
    assert.deepEqual((await run({ attributes: more }, create)).queue.sets, [{ RedrivePolicy: redrive(OURS) }]);
  });

  test('resets manual changes at the next build, to the current values', async () => {
    const drifted = { ...WANTED, VisibilityTimeout: '30' };
    assert.deepEqual((await run({ attributes: drifted }, { ...update, OldResourceProperties: WANTED })).queue.sets, [{ VisibilityTimeout: '360' }]);
    const { RedrivePolicy: _, ...removed } = WANTED;
    assert.deepEqual((await run({ attributes: removed }, { ...update, OldResourceProperties: WANTED })).queue.sets, [{ RedrivePolicy: redrive(OURS) }]);
    const raised = await run({ attributes: WANTED }, { ...update, OldResourceProperties: WANTED }, { RedrivePolicy: redrive(OURS, 2) });
    assert.deepEqual(raised.queue.sets, [{ RedrivePolicy: redrive(OURS, 2) }]);
  });

  test('restores the earlier values when an update is rolled back', async () => {
    const other = redrive(`${OURS}-2`, 15);
    const { answer, queue } = await run({ attributes: { ...WANTED, RedrivePolicy: other } }, { ...update, OldResourceProperties: { ...WANTED, RedrivePolicy: other } });
    assert.deepEqual([answer.Status, queue.sets], ['SUCCESS', [{ RedrivePolicy: redrive(OURS) }]]);
  });

  test("an update neither replaces another redrive policy nor fails because of it, since its rollback would fail, too", async () => {
    const { answer, queue } = await run({ attributes: { ...WANTED, RedrivePolicy: redrive(THEIRS) } }, { ...update, OldResourceProperties: WANTED });
    assert.deepEqual([answer.Status, queue.sets], ['SUCCESS', []]);
  });

  test('the check changes nothing', async () => {
    for (const request of [create, { ...update, PhysicalResourceId: 'untouched' }, { ...remove, PhysicalResourceId: 'untouched' }]) {
      const { answer, queue } = await run({}, request, { Step: 'check' });
      assert.deepEqual([answer.Status, answer.PhysicalResourceId, queue.sets], ['SUCCESS', 'untouched', []]);
    }
  });
});

describe('refusals, which change nothing', { skip: withoutPython }, () => {
  const refused = async (attributes: Record<string, string>, wanted: Record<string, string> = {}): Promise<string> => {
    const reasons = [];
    for (const Step of ['check', 'set']) {
      const { answer, queue } = await run({ attributes: { ...FRESH, ...attributes } }, create, { ...wanted, Step });
      assert.deepEqual([answer.Status, answer.PhysicalResourceId, queue.sets], ['FAILED', 'untouched', []]);
      reasons.push(answer.Reason);
    }
    assert.equal(reasons[0], reasons[1]);
    return reasons[0];
  };

  test("another redrive policy", async () => {
    assert.equal(
      await refused({ RedrivePolicy: redrive(THEIRS, 3) }),
      `The source queue https://sqs/orders already has a redrive policy, to ${THEIRS}: if it is no longer needed, run ${RUN} '{"RedrivePolicy":""}' and deploy again.`,
    );
  });

  test('a FIFO queue', async () => {
    assert.equal(
      await refused({ FifoQueue: 'true' }),
      'The source queue https://sqs/orders is a FIFO queue, which cannot delay individual messages: use a standard queue, or strategy ordered.',
    );
  });

  test('a standard queue with the strategy ordered', async () => {
    assert.equal(
      await refused({}, ORDERED),
      'The source queue https://sqs/orders is a standard queue, which keeps no order: use a FIFO queue with strategy ordered, or another strategy.',
    );
  });

  test('a queue with a key that the functions cannot use', async () => {
    assert.equal(
      await refused({ KmsMasterKeyId: 'alias/orders' }),
      'The source queue https://sqs/orders is encrypted with the key alias/orders: set existingSourceQueue.encryptionKey to it.',
    );
    assert.equal((await run({ attributes: { ...FRESH, KmsMasterKeyId: 'alias/orders' } }, create, { HasKey: 'true' })).answer.Status, 'SUCCESS');
    for (const [key, status] of [
      ['alias/aws/sqs', 'SUCCESS'],
      ['arn:aws:kms:eu-west-1:111122223333:alias/aws/sqs', 'SUCCESS'],
      ['alias/team-aws/sqs', 'FAILED'],
    ] as const) {
      assert.equal((await run({ attributes: { ...FRESH, KmsMasterKeyId: key } }, create)).answer.Status, status, key);
    }
  });

  test("a queue whose retention equals the DLQ's", async () => {
    assert.equal(
      await refused({ MessageRetentionPeriod: '1209600' }),
      'The source queue https://sqs/orders keeps messages as long as its DLQ does, where they keep their age: run ' +
        `${RUN} MessageRetentionPeriod=1123200, which deletes older messages, and deploy again.`,
    );
  });

  test('a queue of another region or account', async () => {
    const sentence = 'The source queue https://sqs/orders is in another account or region than the stack: a DLQ must be in the account and region of its queue.';
    assert.equal(await refused({}, { QueueArn: ARN.replace('eu-west-1', 'eu-west-2') }), sentence);
    assert.equal(await refused({}, { QueueArn: ARN.replace('111122223333', '444455556666') }), sentence);
  });

  test('an unreadable queue', async () => {
    const { answer, queue } = await run({ failures: 4 }, create);
    assert.deepEqual(
      [answer.Status, answer.PhysicalResourceId, answer.Reason, queue.sets],
      ['FAILED', 'untouched', 'The source queue https://sqs/orders could not be read or changed: AccessDenied.', []],
    );
  });
});

describe('failures on the way', { skip: withoutPython }, () => {
  test('late permissions are awaited', async () => {
    assert.deepEqual((await run({ failures: 3 }, create)).queue.sets, [WANTED]);
  });

  test('an invisible change is awaited, since the mapping would refuse the old visibility timeout', async () => {
    const { answer, queue } = await run({ staleReads: 59 }, create);
    assert.deepEqual([answer.Status, queue.staleReads, queue.sets], ['SUCCESS', 0, [WANTED]]);
    const never = await run({ staleReads: 1000 }, create);
    assert.deepEqual(
      [never.answer.Status, never.answer.Reason],
      ['FAILED', 'The source queue https://sqs/orders does not show the change of VisibilityTimeout, MessageRetentionPeriod, MaximumMessageSize, RedrivePolicy after a minute: deploy again.'],
    );
  });

  test('a change with an unknown outcome is reverted when the creation is rolled back', async () => {
    const failed = await run({ lostAnswer: true }, create);
    assert.deepEqual([failed.answer.Status, failed.answer.PhysicalResourceId], ['FAILED', ARN]);
    const { queue } = await run({ attributes: failed.queue.attributes }, { ...remove, PhysicalResourceId: failed.answer.PhysicalResourceId });
    assert.deepEqual(queue.sets, [{ RedrivePolicy: '' }]);
  });

  test('the change of a killed function is reverted by the id that CloudFormation generates', async () => {
    const { answer, queue } = await run({ attributes: WANTED }, { ...remove, PhysicalResourceId: 'redeliver-prod-Set-1ABCDEFGH2IJK' });
    assert.deepEqual([answer.Status, queue.sets], ['SUCCESS', [{ RedrivePolicy: '' }]]);
  });
});

describe('reverting on deletion', { skip: withoutPython }, () => {
  test("removes the redrive policy to redeliver's DLQ, and keeps raised values", async () => {
    const { answer, queue } = await run({ attributes: WANTED }, remove);
    assert.deepEqual([answer.Status, queue.sets], ['SUCCESS', [{ RedrivePolicy: '' }]]);
    const { RedrivePolicy: _, ...raised } = WANTED;
    assert.deepEqual(queue.attributes, raised);
  });

  test("keeps another redrive policy, and removes none if there is none", async () => {
    for (const attributes of [{ ...WANTED, RedrivePolicy: redrive(THEIRS) }, FRESH]) {
      const { answer, queue } = await run({ attributes }, remove);
      assert.deepEqual([answer.Status, queue.sets], ['SUCCESS', []]);
    }
  });

  test('changes nothing for a deleted queue or after a refusal', async () => {
    assert.equal((await run({ gone: true }, remove)).answer.Status, 'SUCCESS');
    assert.equal((await run({ failures: 100 }, { ...remove, PhysicalResourceId: 'untouched' })).answer.Status, 'SUCCESS');
  });

  test('reports a redrive policy that it cannot remove, since messages would keep moving to an unread queue', async () => {
    const { answer } = await run({ attributes: WANTED, failures: 4 }, remove);
    assert.deepEqual([answer.Status, answer.Reason], ['FAILED', 'The source queue https://sqs/orders could not be read or changed: AccessDenied.']);
  });
});
