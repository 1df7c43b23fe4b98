// A handler that streams its answer: what it is given as `text`, and then an error, if it is given one.
export const handler = awslambda.streamifyResponse(async ({ text, error }, stream) => {
  if (text) stream.write(text);
  if (error) throw Object.assign(new Error(error), { name: 'CardDeclined' });
  stream.end();
});
