"""Digits by convolutions with batch norm, the learning rate on a cosine."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def block(inputs, outputs):
    """Convolution, batch norm, ReLU."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()
    )


def train(x, y, x_val, y_val):
    """The accuracy of validation."""
    torch.manual_seed(0)
    model = nn.Sequential(
        block(1, 16), nn.MaxPool2d(2), block(16, 32), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(288, 10),
    )  # fmt: skip
    loader = DataLoader(TensorDataset(x[:, None], y), batch_size=32, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6 * len(loader))
    criterion = nn.CrossEntropyLoss()
    for _ in range(6):
        model.train()
        for images, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
            scheduler.step()
    model.eval()
    with torch.no_grad():
        return (model(x_val[:, None]).argmax(1) == y_val).float().mean().item()
