"""The data and the model of the demo: scikit-learn's 1797 handwritten digits, and a small CNN with a wide layer."""

import numpy
import sklearn.datasets
import torch
from torch import nn

TEST_COUNT = 360


def load() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """(train images, train labels, test images, test labels). The split is the same in every run."""
    digits = sklearn.datasets.load_digits()
    images = torch.from_numpy(digits.images.astype(numpy.float32) / 16.0).unsqueeze(1)
    labels = torch.from_numpy(digits.target.astype(numpy.int64))
    order = torch.from_numpy(numpy.random.RandomState(0).permutation(len(labels)))
    test, train = order[:TEST_COUNT], order[TEST_COUNT:]
    return images[train], labels[train], images[test], labels[test]


class Net(nn.Module):
    """Two convolutions and two linear layers; 3.2 million parameters with width 768, nearly all in one matrix."""

    def __init__(self, width: int = 768):
        super().__init__()
        self.convolutions = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.Flatten()
        )
        self.classifier = nn.Sequential(nn.Linear(64 * 8 * 8, width), nn.ReLU(), nn.Linear(width, 10))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.convolutions(images))


@torch.no_grad()
def accuracy(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    """Share of the images that the model gets right."""
    model.eval()
    right = (model(images).argmax(dim=1) == labels).sum().item()
    model.train()
    return right / len(labels)
