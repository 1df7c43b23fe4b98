"""A user's app with the package from pip. It generates the same template as this repository's app for equal values."""

from aws_cdk import App, Duration, RemovalPolicy, Stack, Validations
from aws_cdk.aws_lambda import Architecture
from cdk_nag import AwsSolutionsChecks
from redeliver_cdk import Backoff, Jitter, Redeliver, RetryPolicy, Target

app = App()
Validations.of(app).add_plugins(AwsSolutionsChecks(app))
prefix, target, architecture = (app.node.try_get_context(name) for name in ("prefix", "target", "architecture"))

stack = Stack(
    app,
    "Redeliver",
    stack_name=f"{prefix}-prod",
    description="redeliver: delayed, jittered retries for SQS and Lambda",
)
redeliver = Redeliver(
    stack,
    "Redeliver",
    target=Target.http(target),
    policy=RetryPolicy.of(max_attempts=2, backoff=Backoff.fixed(Duration.seconds(1), jitter=Jitter.NONE)),
    prefix=prefix,
    architecture=Architecture.ARM_64 if architecture == "arm64" else Architecture.X86_64,
    removal_policy=RemovalPolicy.DESTROY,
)
redeliver.add_outputs()
app.synth()
