"""Faults in sums of kernels: more is lost than is charged, or the law that is stated is not the one that is drawn."""

from __future__ import annotations

from tests.mutants.mutant import LOSSES, Mutant

_KERNELS, _PRODUCT = "duckdp/mechanisms/kernels.py", "duckdp/smooth/product_kernels.py"
_SUMS, _DIRECT, _MOMENTS = (f"duckdp/smooth/sums/{n}.py" for n in ("kernel_sums", "direct", "moments"))
_RELEASE, _LAW = "duckdp/smooth/buy/kernel_release.py", "duckdp/smooth/kernel_noise.py"
_LEAST, _NOISE, _BARS = "duckdp/smooth/buy/least_noise.py", "duckdp/smooth/sum_noise.py", "duckdp/core/kernelbars.py"
_T = ("tests/mechanisms/test_kernels.py",)
_T_SUMS, _T_NOISE = ("tests/smooth/test_kernel_sums.py",), ("tests/smooth/test_kernel_noise.py",)

# fmt: off
KERNELS: tuple[Mutant, ...] = (
    Mutant("kernels: weights of the next degree", _KERNELS, "weights = 1 - r / (count + 1)", "weights = 1 - r / (count + 2)", (*_T, *_T_SUMS)),
    Mutant("kernels: the constant twice", _KERNELS, "twice = np.where(r > 0, 2.0, 1.0)", "twice = np.where(r >= 0, 2.0, 1.0)", _T),
    Mutant("kernels: indicators whose ends weigh as much", _KERNELS, "half = np.where((places == 0) | (places == last), 0.5, 1.0)", "half = np.ones(count)", _T),
    Mutant("kernels: of part of a tensor", _PRODUCT, "if size != math.prod(degrees) or ", "if ", _T_SUMS),
    Mutant("kernel sums: errors of rows left out", _SUMS, "entries + self._spread * float(np.linalg.norm(self._errors))", "entries", _T_SUMS),
    Mutant("kernel sums: rounding left out", _SUMS, "rounding = math.ceil(math.sqrt(size) * self._spread) + size", "rounding = 0", _T_SUMS),
    Mutant("kernel sums: replace moves once", _SUMS, "vectors = 2 if neighbours is Neighbours.REPLACE else 1", "vectors = 1", (*_T_SUMS, LOSSES)),
    Mutant("kernel sums: a unit is one row", _SUMS, "unit = self.moments.max_rows << self.moments.bits", "unit = 1 << self.moments.bits", (*_T_SUMS, LOSSES)),
    Mutant("kernel sums: whatever the errors are of", _SUMS, "if kernels is None or not moments.relative else", "if kernels is None else", _T_SUMS),
    Mutant("sums: rounded after the weight, said to be before", _MOMENTS, "(isinstance(program, DirectSums) and program.relative)", 'path == "sums"', _T_SUMS),
    Mutant("kernel release: clamped as functions", _RELEASE, "noisy = [_clamped(value, most) + z for value, z in zip(sums.collect(exact), of_kernels, strict=True)]", "noisy = [value + z for value, z in zip(sums.collect([_clamped(e, most) for e in exact]), of_kernels, strict=True)]", (*_T_NOISE, *_T_SUMS)),
    Mutant("kernel release: the cube not clamped", _RELEASE, "cube = [_clamped(value, most) + z for", "cube = [value + z for", _T_NOISE),
    Mutant("kernel release: kernels for the whole epsilon", _RELEASE, "laplace_scale(budgets[-1], norms.l1)", "laplace_scale(epsilon, norms.l1)", (*_T_NOISE, LOSSES)),
    Mutant("kernel release: linf of the count for more", _RELEASE, "linf = np.zeros(len(levels), dtype=np.int64), alone if shares.cut == 0 else norms.linf", "linf = np.zeros(len(levels), dtype=np.int64), alone", _T_NOISE),
    Mutant("kernel noise: a cube for nothing", _LAW, "return (epsilon,) if self.cut is None else (cube, epsilon - cube)", "return (epsilon,) if self.cut is None else (cube, epsilon)", (*_T_NOISE, LOSSES)),
    Mutant("kernel noise: half of the kernels' part", _LAW, "((one - weight) * found[place] + weight * value", "((one - weight) * found[place] // 2 + weight * value", _T_NOISE),
    Mutant("kernel noise: deviations without the cube", _LAW, "squares[self.helped] += (self._help * self._cube_deviation) ** 2", "pass", _T_NOISE),
    Mutant("kernel noise: the smallest law is not taken", _LEAST, "return sums if errors[0] <= errors[1] else kernels", "return kernels", _T_NOISE),
    Mutant("kernel noise: the same noise for all kernels", _NOISE, "of_kernels, count = laplace_noise(noise.kernels.size, noise.scales[-1]), len(noise.helped)", "of_kernels, count = laplace_noise(1, noise.scales[-1]) * noise.kernels.size, len(noise.helped)", _T_NOISE),
    Mutant("kernel bars: no kurtosis", _BARS, "fourth = 12 * scale**4 * (ours**2).sum(axis=1)", "fourth = 0 * (ours**2).sum(axis=1)", _T_NOISE),
)
