import { Stack } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';

import { layerCodeOf } from './bundles';
import { refuseLargeEnvironment } from './environment';
import { logLevelProblems } from './log-group';
import type { Plan } from './plan';
import { allowLoop } from './region';
import type { UserFunction } from './user-function';

/** The directory to which Lambda extracts layers. */
export const LAYER_DIRECTORY = '/opt/';
const PROGRAM = 'redeliver';

/**
 * The variable that names the program that Lambda runs with the runtime's command as arguments ("Modifying the runtime
 * environment").
 */
const WRAPPER_VARIABLE = 'AWS_LAMBDA_EXEC_WRAPPER';
/** The variable that names the user's own wrapper, which our program starts in turn. */
export const NEXT_WRAPPER_VARIABLE = 'REDELIVER_NEXT_WRAPPER';
export const WRAPPER = LAYER_DIRECTORY + PROGRAM;

/** The maximum number of layers of a function ("Lambda quotas"). */
const LAYERS_MAX = 5;

/** Runtimes that start a wrapper: all except the OS-only runtimes ("Modifying the runtime environment"). */
const RUNTIME_FAMILIES: readonly (lambda.RuntimeFamily | undefined)[] = [
  lambda.RuntimeFamily.NODEJS, lambda.RuntimeFamily.PYTHON, lambda.RuntimeFamily.JAVA, lambda.RuntimeFamily.DOTNET_CORE, lambda.RuntimeFamily.RUBY,
];
/** The names of those runtimes, for versions that this CDK does not list yet. */
const RUNTIME_NAMES = /^(nodejs|python|java|dotnet|ruby)\d/;

const LOG_LEVEL_ADVICE = "set applicationLogLevelV2 to ApplicationLogLevel.INFO, and the level of your own lines in your code's logger";

/** Files and variables that are added to a user's function with the program. */
interface Attachments {
  readonly schemas: Readonly<Record<string, string>>;
  readonly environment: Readonly<Record<string, string>>;
}

/**
 * Adds redeliver's program and its settings to the user's function.
 *
 * @throws RedeliverPropsError if there is no program for the function's architecture, or if the settings exceed
 * Lambda's limit.
 */
export function attach(scope: Construct, userFunction: UserFunction, { bundles }: Plan, { schemas, environment }: Attachments): lambda.Function {
  const { name, function: own, resource } = userFunction;
  const { architecture } = own;
  const next = variablesOf(userFunction)[WRAPPER_VARIABLE];
  const settings = { ...environment, [WRAPPER_VARIABLE]: WRAPPER, ...(next ? { [NEXT_WRAPPER_VARIABLE]: String(next) } : {}) };
  own.addLayers(
    new lambda.LayerVersion(scope, 'Layer', {
      description: 'redeliver: starts the runtime of a function, calls its handler, and hands failures off.',
      code: layerCodeOf(PROGRAM, name, { architecture, bundles }, schemas),
      compatibleArchitectures: [architecture],
    }),
  );
  Object.entries(settings).forEach(([variable, value]) => own.addEnvironment(variable, value));
  own.node.addValidation({ validate: () => [...replacedWrapperProblems(userFunction), ...logLevelProblems(name, resource, LOG_LEVEL_ADVICE)] });
  allowLoop(resource);
  refuseLargeEnvironment(own, { functionName: name, environment: variablesOf(userFunction) });
  return own;
}

/** Returns the function's variables: literals, and references for values known at deployment. */
export function variablesOf({ resource }: UserFunction): Readonly<Record<string, any>> {
  return resolveValue(resource, resource.environment)?.variables ?? {};
}

/** Returns reasons why the layer cannot be added, or why Lambda would not start its program. */
export function layerProblems(userFunction: UserFunction): string[] {
  const { name, function: own, resource } = userFunction;
  const { runtime } = own;
  if (runtime === lambda.Runtime.FROM_IMAGE) {
    return [
      `${name} is a container image, which has no layers; use Target.lambdaFunction, or copy redeliver's program into the image, make it the ` +
        `entrypoint (with AWS's base images: ENTRYPOINT ["${WRAPPER}", "/lambda-entrypoint.sh"]) and connect the queues by hand: docs/own-function.md.`,
    ];
  }
  if (runtime.name.startsWith('provided')) {
    return [
      `${name} has the OS-only runtime ${runtime.name}, for which Lambda starts no wrapper; use Target.lambdaFunction, or Target.handler for a handler in ` +
        `Rust, or put redeliver's program next to yours, start both in bootstrap (exec ./${PROGRAM} ./my-program) and connect the queues by hand: ` +
        'docs/own-function.md.',
    ];
  }
  if (!RUNTIME_FAMILIES.includes(runtime.family) && !RUNTIME_NAMES.test(runtime.name)) {
    return [`${name} has the runtime ${runtime.name}, but redeliver supports Node.js, Python, Java, .NET and Ruby; use one of them, or Target.lambdaFunction.`];
  }
  return [
    ...featureProblems(userFunction),
    ...logLevelProblems(name, resource, LOG_LEVEL_ADVICE),
    ...wrapperProblems(userFunction),
    ...(countLayers(resource) < LAYERS_MAX
      ? []
      : [`${name} has ${LAYERS_MAX} layers, Lambda's limit, but redeliver's program needs one; merge two of them.`]),
  ];
}

/** Returns problems with Lambda features that redeliver does not support in a user's function. */
function featureProblems({ name, resource }: UserFunction): string[] {
  const snapStart = resolveValue(resource, resource.snapStart);
  return [
    ...(snapStart === undefined || snapStart.applyOn === 'None'
      ? []
      : [
          `${name} has SnapStart, which only applies to published versions, but the messages go to $LATEST, and redeliver's program gets no ` +
            'credentials in a snapshot; remove it.',
        ]),
    ...(resource.durableConfig === undefined
      ? []
      : [`${name} is a durable function, whose events are not plain SQS events; use a function without durableConfig.`]),
    ...(resource.tenancyConfig === undefined
      ? []
      : [`${name} is in tenant isolation mode, in which Lambda reads no queue for it; use Target.lambdaFunction with tenantIsolation: true.`]),
    ...(resource.capacityProviderConfig === undefined
      ? []
      : [`${name} runs on Lambda Managed Instances, with several invocations in one environment, but redeliver handles one at a time; use a function without a capacity provider.`]),
  ];
}

function wrapperProblems(userFunction: UserFunction): string[] {
  const wrapper: unknown = variablesOf(userFunction)[WRAPPER_VARIABLE];
  return wrapper === undefined || typeof wrapper === 'string'
    ? []
    : [`${userFunction.name} has an ${WRAPPER_VARIABLE} that is only known at deployment, so redeliver cannot run it as well; set it to a literal.`];
}

/** Reports a wrapper variable that was overwritten later, which would remove redeliver from the function. */
function replacedWrapperProblems(userFunction: UserFunction): string[] {
  const wrapper: unknown = variablesOf(userFunction)[WRAPPER_VARIABLE];
  if (wrapper === WRAPPER) {
    return [];
  }
  return [
    `${userFunction.name} has ${typeof wrapper === 'string' ? wrapper : 'another value'} as ${WRAPPER_VARIABLE}, set after Redeliver was created, so ` +
      `messages would bypass redeliver; set it before, or set ${NEXT_WRAPPER_VARIABLE} instead, which redeliver also runs.`,
  ];
}

function countLayers(resource: lambda.CfnFunction): number {
  const layers: unknown = resolveValue(resource, resource.layers);
  return Array.isArray(layers) ? layers.length : 0;
}

function resolveValue(resource: lambda.CfnFunction, value: unknown): any {
  return Stack.of(resource).resolve(value);
}
