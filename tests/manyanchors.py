"""A mechanism with five anchors, for tests: the library's own have two, and the core must not care."""

from bisample import NumberMechanism, Table
from bisample.exact import TOTAL, response_weights


class FiveAnchors(NumberMechanism):
    """Rounds to one of five numbers or to no answer, then 6-ary randomized response; not registered."""

    @staticmethod
    def build(epsilon):
        truth, others = response_weights(TOTAL, epsilon, 6)
        rows = [[*others[:i], truth, *others[i:]] for i in range(6)]
        labels = ("-1", "-1/2", "0", "1/2", "1", "no answer")
        return Table(rows, rows=labels, codes=labels, anchors=(-1, -0.5, 0, 0.5, 1), refusal=True)


FiveAnchors.name = "five-anchors"  # set afterwards, as a name in the class would register it
