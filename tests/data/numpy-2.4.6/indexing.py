"""indexing.json: what NumPy selects, for random indices of every kind. Usage: python indexing.py > indexing.json

The array holds 0, 1, 2 .. in C order; "result" is the shape of what is selected, null if NumPy refuses, "data" its elements."""
import json, random
import numpy as np

r = random.Random(20261121)


def part(n, left, shape, common):
    k = r.randrange(10)
    if k == 0:
        return None, "None", 0
    if k == 1:
        return Ellipsis, "...", 0
    if k <= 3:
        at = r.randrange(-n, n) if n and r.random() < 0.97 else n
        return at, at, 1
    if k == 4:
        of = shape[: r.randint(1, min(2, left))]
        if r.random() < 0.05:
            of = [of[0] + 1]
        mask = np.array([r.random() < 0.4 for _ in range(int(np.prod(of)))], dtype=bool).reshape(of)
        return mask, {"mask": [int(x) for x in mask.ravel()], "shape": list(of)}, len(of)
    if k <= 7 and n:
        of = r.choice([[], [1], [common], [common], [2, common], [2, 1]])
        points = np.array([r.randrange(-n, n) for _ in range(int(np.prod(of)))], dtype=int).reshape(of)
        return points, {"points": [int(x) for x in points.ravel()], "shape": of}, 1
    a, b = ("" if r.random() < 0.3 else str(r.randint(-n - 2, n + 2)) for _ in range(2))
    step = r.choice(["", "1", "2", "3", "-1", "-2"])
    text = f"{a}:{b}:{step}"
    return slice(*[int(x) if x else None for x in text.split(":")]), text, 1


cases = []
while len(cases) < 600:
    shape = [r.choice([0, 1, 2, 3, 4, 5, 6]) for _ in range(r.randint(1, 4))]
    index, text, axis, common = [], [], 0, r.randint(0, 4)
    while axis < len(shape) and r.random() < 0.85:
        i, t, n = part(shape[axis], len(shape) - axis, shape[axis:], common)
        if i is Ellipsis and any(x is Ellipsis for x in index):
            continue
        index.append(i)
        text.append(t)
        axis += n
    array = np.arange(int(np.prod(shape))).reshape(shape)
    try:
        found = np.asarray(array[tuple(index)])
    except IndexError:
        cases.append({"shape": shape, "index": text, "result": None})
        continue
    if found.size <= 200:
        cases.append({"shape": shape, "index": text, "result": list(found.shape), "data": [int(x) for x in found.ravel()]})
print("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]")
