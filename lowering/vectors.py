"""What runs loops: vectors, units for products, and threads."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Vectors:
    """Their width in bits, how many of them registers hold, and which sums of products are instructions: of tiles
    (`amx`), of pairs of 16 bits. `threads` share a kernel: torch's, so no sum may be cut by them, and blocks that each
    take all of their own sums may. `blocks`: products of f32 are made of packed factors.
    """

    bits: int = 512
    registers: int = 32
    amx: bool = False
    pairs: bool = False
    threads: int = 16
    blocks: bool = False

    @property
    def sums(self) -> int:
        """Running sums of a tile at most: the other registers hold factors."""
        return 3 * self.registers // 4

    @property
    def copies(self) -> int:
        """Vectors of a row of a tile at most, next to which as many factors and one of a column have room."""
        return self.registers // 8

    def side_of(self, rows: int) -> int:
        """Vectors of each of so many rows: beside the sums there is room for as many, and for one of a column."""
        return min(self.sums // rows, (self.registers - 1) // (rows + 1))

    @property
    def values(self) -> int:
        """Running values of columns at most."""
        return self.registers // 2
