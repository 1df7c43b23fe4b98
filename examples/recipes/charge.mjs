// The work of the recipes, which is yours: they call it with each message's body.

/** Never going to work: `"non_retryable": ["*CardDeclined*"]` in the policy. */
class CardDeclined extends Error {
  // An error is known by its `name`, which a subclass has only if it says so.
  name = 'CardDeclined';
}

/** Perhaps tomorrow. */
class InsufficientFunds extends Error {
  name = 'InsufficientFunds';
}

export const charge = async (order) => {
  const cents = order.cents.reduce((sum, cents) => sum + cents);
  if (order.card === 'declined') throw new CardDeclined(`the card of order ${order.id} is declined`);
  if (cents > order.funds) throw new InsufficientFunds(`order ${order.id} needs ${cents} cents`);
};
